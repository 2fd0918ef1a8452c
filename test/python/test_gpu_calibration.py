"""Thresholds of mode auto follow the figures of the device, and rows do not."""
import pytest

from test_gpu_runtime import fake, process  # noqa: F401 (fixtures)

ROWS = 60000
TABLES = ["CREATE TABLE zones AS SELECT i AS id, ST_MakeEnvelope(i, 0, i + 1, 1) AS g FROM range(1000) t(i)",
          f"CREATE TABLE points AS SELECT ST_Point((i % 10000) / 9 + 0.05, 0.5) AS g FROM range({ROWS}) t(i)"]
JOIN = "SELECT z.id, count(*) FROM points p JOIN zones z ON ST_Within(p.g, z.g) GROUP BY ALL ORDER BY ALL"
KERNELS = "SELECT operation, threshold_rows, threshold_source FROM vibe_kernels() WHERE variants = 'cpu, gpu' ORDER BY operation"
INFO = "SELECT found, detail FROM vibe_gpu_info() WHERE component = 'calibration'"
CHOSEN = "SELECT selected, reason FROM vibe_dispatch_log() WHERE operation = 'join_points' ORDER BY sequence DESC LIMIT 1"
EVENTS = "SELECT operation, actual, reason FROM vibe_dispatch_log() WHERE operator = 'CALIBRATION'"
# Microseconds of a launch, GB/s to the device and back, edges per microsecond, cores
H200, SLOW_BUS, FEW_CORES = "8.3 54.9 53.1 141000 16", "15 3.1 2.9 150000 16", "9 40 45 150000 2"


def figures_of(process, fake, figures):  # noqa: F811
    environment = {"FAKE_GPU_FIGURES": figures} if figures else {}
    load, results = process("FROM vibe_ensure_warm(5)", *TABLES, JOIN, CHOSEN, KERNELS, INFO, EVENTS, VIBESPATIAL_GPU_FOLDER=str(fake),
                            **environment)
    rows, (chosen,), kernels, (info,), events = results[-5:]
    return rows, chosen, {name: rows for name, rows, _ in kernels}, {source for *_, source in kernels}, info, events


def test_thresholds_follow_the_device(process, fake):  # noqa: F811
    rows, chosen, reference, sources, info, events = figures_of(process, fake, None)
    assert sum(count for _, count in rows) > ROWS / 2 and sources == {"reference"} and events == []
    assert chosen == ["gpu", f"{ROWS} rows: not below the threshold of 10000"]
    assert info == [False, "not measured yet: thresholds are those of the reference machine"]
    assert (reference["join_points"], reference["join_shapes"], reference["scalar_rows"]) == (10000, 30000, None)

    same_rows, chosen, thresholds, sources, info, events = figures_of(process, fake, H200)
    assert same_rows == rows and thresholds == reference and sources == {"calibration"} and events == []
    assert chosen == ["gpu", f"{ROWS} rows: not below the threshold of 10000"]
    assert info == [True, "launch and wait 8.3 us, 54.9 GB/s to the device, 53.1 GB/s back, 141000 edge tests/us, 16 cores (fake)"]

    same_rows, chosen, thresholds, sources, info, events = figures_of(process, fake, SLOW_BUS)
    assert same_rows == rows and sources == {"calibration"} and events == []
    # Every point would take longer on its way than the CPU takes for it
    assert thresholds["join_points"] is None and thresholds["join_shapes"] > reference["join_shapes"]
    assert chosen == ["cpu", f"{ROWS} rows: the CPU is faster at any number of rows"]

    same_rows, _, thresholds, _, _, events = figures_of(process, fake, FEW_CORES)
    assert same_rows == rows and events == []
    assert 600 <= thresholds["join_points"] < 2000 and thresholds["pin"] == 1


@pytest.mark.parametrize("figures, named", [("0 55 55 60000 16", "launch_us was measured as 0"),
                                            ("8 inf 55 60000 16", "to_device_gbs was measured as inf"),
                                            ("8 55 nan 60000 16", "from_device_gbs was measured as"),
                                            ("8 55 55 -3 16", "edges_per_us was measured as -3"),
                                            ("8 55 55 60000 0", "cores was measured as 0")])
def test_nonsense_leaves_an_event(process, fake, figures, named):  # noqa: F811
    rows, chosen, thresholds, sources, info, events = figures_of(process, fake, figures)
    assert sources == {"reference"} and thresholds["join_points"] == 10000 and chosen[0] == "gpu"
    assert not info[0] and "thresholds are those of the reference machine" in info[1] and named in info[1]
    (event,) = events
    assert event[:2] == ["calibration", "none"] and named in event[2]


def test_the_setting_wins(process, fake):  # noqa: F811
    load, results = process("FROM vibe_ensure_warm(5)", "SET vibe_gpu_min_rows = 1000", *TABLES, JOIN, CHOSEN,
                            VIBESPATIAL_GPU_FOLDER=str(fake), FAKE_GPU_FIGURES=SLOW_BUS)
    assert results[-1] == [["gpu", f"{ROWS} rows: not below the threshold of 1000"]]
