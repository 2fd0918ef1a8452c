"""Single precision in front of the exact tests: which kernels are launched, and that rows stay the same."""
import pytest

from test_gpu_runtime import fake, process  # noqa: F401 (fixtures)

# Stars whose edges the points lie close to, or on; cells need many points and few areas
TABLES = ["CREATE TABLE zones AS SELECT i AS id, ST_Buffer(ST_Point(i * 0.9, 0.5), 0.7, 40) AS g FROM range(200) t(i)",
          "CREATE TABLE points AS SELECT ST_Point((i % 7919) / 41.0, (i % 101) / 97.0) AS g FROM range(200000) t(i) "
          "UNION ALL SELECT ST_PointN(ST_ExteriorRing(g), (1 + id % 160)::INTEGER) FROM zones, range(3)"]
COUNTS = "SELECT z.id, count(*) FROM points p JOIN zones z ON ST_Intersects(p.g, z.g) GROUP BY ALL ORDER BY ALL"
PAIRS = "SELECT count(*), sum(hash(p.g, z.id)) FROM points p JOIN zones z ON ST_Within(p.g, z.g)"
FOUND = "SELECT count(*) FROM points p WHERE EXISTS (FROM zones z WHERE ST_Touches(p.g, z.g))"
KERNELS = "SELECT map_keys(kernels) FROM vibe_dispatch_log() WHERE operation = 'join_points' ORDER BY sequence"
DEVICE = "SELECT detail FROM vibe_gpu_info() WHERE component = 'device'"


@pytest.mark.parametrize("setting, slow, used", [("auto", False, False), ("auto", True, True), ("on", False, True), ("off", True, False)])
def test_rows_stay_the_same(process, fake, setting, slow, used):  # noqa: F811
    environment = {"VIBESPATIAL_GPU_FP32": setting, **({"FAKE_GPU_ROUGH": "1"} if slow else {})}
    queries = [COUNTS, PAIRS, FOUND]
    load, results = process(*TABLES, "SET vibe_execution_mode = 'cpu'", *queries, "SET vibe_execution_mode = 'gpu'", *queries, KERNELS, DEVICE,
                            "SET vibe_gpu_fp32 = 'off'", "SET vibe_gpu_fp32 = 'on'", VIBESPATIAL_GPU_FOLDER=str(fake), **environment)
    cpu, gpu = results[3:6], results[7:10]
    assert cpu == gpu and len(cpu[0]) == 200 and cpu[1][0][0] > 1000 and cpu[2][0][0] > 100
    kernels, ((device,),), *changes = results[10:]
    for (names,) in kernels:
        assert ("point_in_polygon_rough" in names, "point_in_polygon" in names) == (used, not used)
    assert len(kernels) == 3 and f"fp64 at 1/{64 if slow else 2} of fp32 (filter {'on' if used else 'off'})" in device
    # What is no change is no error
    for choice, change in zip(("off", "on"), changes):
        assert (change == []) == (choice == setting), change
        assert choice == setting or "set the environment variable VIBESPATIAL_GPU_FP32 before LOAD" in change
