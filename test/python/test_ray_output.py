"""Where vibespatial.ray writes: a folder that holds other files, that is an input, or that another run takes."""
import json
import os

import pyarrow.dataset
import pytest

from test_ray_inputs import LOCAL, arrow, vibe  # noqa: F401 (fixture)

WAY = {"broadcast": "never", "partitions": 4, **LOCAL}


@pytest.fixture
def points(con):
    return arrow(con.execute("SELECT i AS id, ST_Point(i % 20, i // 20) AS geom FROM range(400) t(i)"))


def join(vibe, left, right, out, **options):
    return vibe.ray.sjoin(left, right, "dwithin", distance=1.0, select=["l.id", "r.id AS other"], output=out, **{**WAY, **options})


def holds(folder):
    return sorted(path.name for path in folder.iterdir())


def write_dataset(con, folder):
    """Files whose names begin as ours do."""
    table = arrow(con.execute("SELECT i AS id, ST_AsWKB(ST_Point(i, i)) AS geom FROM range(10) t(i)"))
    pyarrow.dataset.write_dataset(table, folder, format="parquet")
    assert holds(folder) == ["part-0.parquet"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_files_of_others_stay(vibe, con, points, tmp_path, overwrite):
    for name, marks in (("dataset", []), ("spark", ["_SUCCESS"]), ("unfinished", ["_temporary-1"])):
        folder = tmp_path / name
        write_dataset(con, folder)
        for mark in marks:
            (folder / mark).touch()
        before = holds(folder)
        with pytest.raises(FileExistsError, match="holds other files"):
            join(vibe, points, points, folder, overwrite=overwrite)
        assert holds(folder) == before
    # Not even with names as ours are, where nothing says that a run of ours has written them
    os.rename(tmp_path / "dataset" / "part-0.parquet", tmp_path / "dataset" / "part-00000.parquet")
    with pytest.raises(FileExistsError, match="holds other files .part-00000.parquet"):
        join(vibe, points, points, tmp_path / "dataset", overwrite=overwrite)


@pytest.mark.parametrize("output", ["d", "d/in", "d/in/out", "link", "d/./in/"])
def test_an_output_folder_that_is_holds_or_lies_in_an_input(vibe, con, points, tmp_path, output):
    (tmp_path / "d").mkdir()
    write_dataset(con, tmp_path / "d" / "in")
    (tmp_path / "link").symlink_to(tmp_path / "d" / "in")
    for arguments in (("sjoin", tmp_path / "d" / "in", points), ("knn", points, f"{tmp_path}/d/in/part-0.parquet"), ("dissolve", f"{tmp_path}/d/in/*.parquet")):
        if output == "d/in/out" and arguments[0] != "sjoin":
            # It lies beside the files
            continue
        with pytest.raises(ValueError, match="is, holds or lies in the input"):
            vibe.ray.plan(*arguments, output=f"{tmp_path}/{output}", overwrite=True, **LOCAL)
    assert holds(tmp_path / "d" / "in") == ["part-0.parquet"]
    vibe.ray.plan("sjoin", tmp_path / "d" / "in", points, output=tmp_path / "d" / "inner", **LOCAL)


def test_a_result_and_what_a_run_has_left_are_replaced(vibe, con, points, tmp_path):
    out = tmp_path / "out"
    result = join(vibe, points, points, out)
    summary = json.loads((out / "_SUCCESS").read_text())
    assert summary == {"rows": result.rows, "parts": [name for name in holds(out) if name.startswith("part-")]}
    with pytest.raises(FileExistsError, match="overwrite=True"):
        join(vibe, points, points, out)
    # As after a driver that was killed
    (out / "_SUCCESS").unlink()
    (out / f"_temporary-{'0' * 32}").mkdir()
    assert join(vibe, points, points, out, partitions=2).rows == result.rows
    assert holds(out) == ["_SUCCESS", *json.loads((out / "_SUCCESS").read_text())["parts"]]
    assert con.execute(f"SELECT count(*) FROM '{out}/*.parquet'").fetchall()[0][0] == result.rows
    join(vibe, points, points, out, overwrite=True)


@pytest.mark.parametrize("ends", ["fails", "is cancelled"])
def test_a_run_that_does_not_finish_leaves_nothing(vibe, points, tmp_path, ends):
    out = tmp_path / "out"
    cancel = vibe.ray.Cancel()
    seen = []

    def progress(one):
        if one.stage == "join" and one.tasks_done == 2:
            seen.extend(holds(out))
            if ends == "fails":
                raise RuntimeError("it fails")
            cancel.cancel()

    with pytest.raises(RuntimeError, match=ends.split()[-1]):
        join(vibe, points, points, out, cancel=cancel, progress=progress)
    assert any(name.startswith("part-") for name in seen) and holds(out) == []


def test_another_run_takes_the_folder(vibe, con, points, tmp_path):
    """It comes while the first has written some of its parts: the first says so, and leaves the result of the other as it is."""
    out, other = tmp_path / "out", []

    def progress(one):
        if one.stage == "join" and one.tasks_done == 2 and not other:
            other.append(None)
            other[0] = join(vibe, points.slice(0, 100), points, out, partitions=2)

    with pytest.raises(FileExistsError, match="another run has taken"):
        join(vibe, points, points, out, progress=progress)
    assert holds(out) == ["_SUCCESS", *json.loads((out / "_SUCCESS").read_text())["parts"]]
    assert con.execute(f"SELECT count(*) FROM '{out}/*.parquet'").fetchall()[0][0] == other[0].rows


def test_a_task_that_goes_on_after_the_end_writes_nothing(vibe, con):
    """On an object store its part would not fail for the lack of a folder."""
    fsspec = pytest.importorskip("fsspec")
    first, second = (vibe.ray._output.Folder("memory://taken") for _ in range(2))
    for folder, value in ((first, 1), (second, 2)):
        folder.prepare(True)
        folder.finish(1, folder.write(con, f"SELECT {value} AS a", "00000", None)[1])
    with pytest.raises(FileExistsError, match="another run has taken"):
        first.write(con, "SELECT 1 AS a", "00001", None)
    names = sorted(path.rsplit("/", 1)[-1] for path in fsspec.filesystem("memory").find("/taken"))
    assert names == ["_SUCCESS", "part-00000.parquet"]


def test_an_output_folder_is_refused_where_the_result_is_made_here(vibe, points, tmp_path):
    with pytest.raises(ValueError, match="aggregate= makes the result in this process"):
        vibe.ray.plan("sjoin", points, points, aggregate={"n": "count(*)"}, output=tmp_path / "out", **LOCAL)
    with pytest.raises(ValueError, match="combine= makes the result in this process"):
        vibe.ray.plan("sql", "SELECT count(*) AS n FROM t", {"t": points}, "t", combine="SELECT sum(n) FROM parts", output=tmp_path / "out", **LOCAL)
    assert not (tmp_path / "out").exists()
