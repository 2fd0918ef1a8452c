"""The benchmark bench/spatialbench.py: its queries run and agree with DuckDB's spatial and GeoPandas, and a wrong answer is found."""
import csv
import datetime
import decimal
import json
import os
import pathlib
import struct
import subprocess
import sys

import numpy
import pytest
import shapely
from conftest import HAS_SPATIAL, ROOT

sys.path.insert(0, str(ROOT / "bench"))
import spatialbench  # noqa: E402
from spatialbench_queries import QUERIES  # noqa: E402

SHARED = pathlib.Path(os.environ.get("VIBESPATIAL_SHARED_DATA", ROOT.parent / "shared" / "data"))
BY_NUMBER = {query.number: query for query in QUERIES}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The folder in which the tables are kept from one run to the next."""
    return tmp_path_factory.mktemp("spatialbench")


def run(extension, data, *options):
    command = [sys.executable, ROOT / "bench" / "spatialbench.py", "--sf", "0.001", "--rounds", "1", "--seconds", "0", "--threads", "2",
               "--extension", extension, "--data", data, *options]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


def test_queries_agree_with_peers(extension, data, tmp_path):
    chosen = [query for query in QUERIES if SHARED.is_dir() or not query.zones]
    engines = "vibespatial,spatial,GeoPandas" if HAS_SPATIAL else "vibespatial,GeoPandas"
    done = run(extension, data, "--floor", "--modes", "cpu,auto", "--engines", engines, "--json", tmp_path / "found.json",
               "--queries", ",".join(str(query.number) for query in chosen))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["wrong"], found["failed"]) == ([], [])
    assert [entry["query"] for entry in found["queries"]] == [query.name for query in chosen]
    names = ["vibespatial cpu", "vibespatial auto", *engines.split(",")[1:], "floor"]
    for entry in found["queries"]:
        asked = [name for name in names if name != "GeoPandas" or entry["query"] != "Q12"]
        assert [name for name, value in entry["engines"].items() if isinstance(value, dict)] == asked, entry
    rows = {line.split(" | ")[0].strip("| "): int(line.split(" | ")[-1].strip(" |")) for line in done.stdout.splitlines() if line.startswith("| Q")}
    assert (rows["Q5"], rows["Q7"], rows["Q12"]) == (100, 100, 100)


def test_a_wrong_answer_ends_the_run(extension, data, con, tmp_path):
    """The answer to one query as it would be published, and the same with a digit changed."""
    assert run(extension, data, "--queries", "7", "--engines", "vibespatial").returncode == 0
    con.execute(f"CREATE VIEW trip AS FROM '{data}/sf0.001/trip.parquet'")
    found = con.execute(BY_NUMBER[7].sql)
    names = [column[0] for column in found.description]
    rows = found.fetchall()

    def publish(rows):
        with open(tmp_path / "q7.csv", "w", newline="") as file:
            csv.writer(file).writerows([names, *rows])
        return run(extension, data, "--queries", "7", "--engines", "vibespatial", "--answers", tmp_path)

    done = publish(rows)
    assert done.returncode == 0 and "with the published ones" in done.stdout, done.stdout + done.stderr
    done = publish([*rows[:40], (*rows[40][:3], rows[40][3] * 1.00001), *rows[41:]])
    assert done.returncode == 1 and "Q7: vibespatial differs from the published answer: row 41" in done.stdout, done.stdout + done.stderr


def test_an_engine_that_fails_is_named(extension, data):
    done = run(extension, data, "--queries", "1", "--engines", "SedonaDB,vibespatial", "--generator", "/bin/true")
    assert done.returncode == 0 and "Q1: SedonaDB: ModuleNotFoundError" in done.stdout, done.stdout + done.stderr
    done = run(extension, data, "--engines", "Oracle")
    assert done.returncode == 2 and "there is no engine Oracle" in done.stderr


def test_rows_in_order_count():
    query = BY_NUMBER[12]
    rows = [(key, 1.0 / (key + 1)) for key in range(100)]
    assert spatialbench.difference(query, rows, [(key, value * (1 + 9e-7)) for key, value in rows]) is None
    assert "row 7" in spatialbench.difference(query, rows, [*rows[:6], (6, rows[6][1] * (1 + 2e-6)), *rows[7:]])
    assert "row 2" in spatialbench.difference(query, rows, [rows[0], rows[2], rows[1], *rows[3:]])
    assert "99 rows" in spatialbench.difference(query, rows, rows[:99])
    # The last of a hundred may be another with the same value
    assert spatialbench.difference(query, rows, [*rows[:99], (500, rows[99][1])]) is None
    assert "row 100" in spatialbench.difference(query, rows, [*rows[:99], (500, 0.5)])
    assert "row 50" in spatialbench.difference(query, rows[:50], [*rows[:49], (500, rows[49][1])])


def test_values_of_different_types():
    same = spatialbench.same_value
    assert same(9498.333, datetime.timedelta(seconds=9498, microseconds=333334)) and not same(9498.3, datetime.timedelta(seconds=9498))
    assert same(decimal.Decimal("0.000106666"), 0.00010666666666666667) and not same(decimal.Decimal("0.000106666"), 0.000107)
    assert same(3, 3.0) and not same(3, 4) and not same(3, None) and same(None, None) and not same("3", 3)
    assert same(datetime.datetime(1998, 5, 1), datetime.datetime(1998, 5, 1)) and not same(datetime.datetime(1998, 5, 1), datetime.datetime(1998, 6, 1))


def test_published_answers_are_read(tmp_path):
    (tmp_path / "q3.csv").write_text("pickup_month,total_trips,avg_distance,avg_duration_seconds,avg_fare\n1992-04-01,2,2e-05,5027.0,\n")
    (row,) = spatialbench.published(BY_NUMBER[3], tmp_path)
    assert row[:2] == (datetime.datetime(1992, 4, 1), 2) and row[4] is None
    assert spatialbench.same_value(row[2], 2.00009e-05) and not spatialbench.same_value(row[2], 2.01e-05)
    (tmp_path / "q2.csv").write_text("trip_count_in_coconino_county\n541\n")
    assert spatialbench.published(BY_NUMBER[2], tmp_path) is None  # of other zones than ours
    assert spatialbench.published(BY_NUMBER[1], tmp_path) is None


def test_divided_edges_keep_the_area():
    square = [(0, 0), (0, 3), (3, 3), (3, 0), (0, 0)]
    areas = [shapely.Polygon(square), shapely.Polygon(square, [[(1, 1), (2, 1), (2, 2), (1, 1)]]),
             shapely.MultiPolygon([shapely.box(0, 0, 1, 1), shapely.Polygon(shapely.box(2, 2, 5, 5).exterior, [shapely.box(3, 3, 4, 4).exterior])])]
    for area in areas:
        wkb = shapely.to_wkb(area)
        found = shapely.from_wkb(spatialbench.divided(wkb, 4))
        rings, more = (list(spatialbench.rings(shapely.to_wkb(g))) for g in (area, found))
        assert [4 * (count - 1) + 1 for _, count in rings] == [count for _, count in more]
        assert found.is_valid and shapely.equals(found, area)
        assert numpy.isin(shapely.get_coordinates(area), shapely.get_coordinates(found)).all()
    with pytest.raises(SystemExit, match="little-endian"):
        list(spatialbench.rings(struct.pack(">BII", 0, 3, 0)))
