"""Plans ask for the kernels they need, also of an engine that is still being opened; work waits for those it launches, and the log tells
of them. The engine of these tests has no GPU, and refuses to launch a kernel that nobody has waited for."""
import pytest

from test_gpu_runtime import fake, process  # noqa: F401 (fixtures)

TABLES = [
    "CREATE TABLE points AS SELECT ST_Point(i % 100, i // 100) AS g FROM range(20000) t(i)",
    "CREATE TABLE areas AS SELECT ST_Buffer(ST_Point(i * 10, i * 7), 6) AS g FROM range(20) t(i)",
    "CREATE TABLE roads AS SELECT ST_MakeLine(ST_Point(i, 0), ST_Point(i + 1, 9)) AS g FROM range(100) t(i)",
    # Statistics tell nothing of the result of a function
    "CREATE TABLE texts AS SELECT ST_AsText(g) AS t FROM points",
    "CREATE TABLE paired AS SELECT ST_Point(i, 0) AS p, ST_MakeEnvelope(i, -1, i + 1, 1) AS q, ST_Point(i, i % 4) AS r FROM range(1000) t(i)",
]
COUNT = "SELECT count(*) FROM points p JOIN areas a ON ST_Intersects(p.g, a.g)"
ASKED = ("SELECT name, requested_by FROM vibe_precompile_status() WHERE kind <> 'total' AND state <> 'idle'")
WAITED = ("SELECT operation, actual, map_keys(kernels), list_distinct(map_values(kernels)), kernel_wait_ms, reason FROM vibe_dispatch_log() "
          "WHERE operation = '{}' ORDER BY sequence DESC LIMIT 1")

UNION = {"overlay_split", "overlay_rings", "segment_intersection", "exclusive_scan_i32", "radix_sort_u64_i32"}
#: The kernels that a plan asks for, by its operator
PLANS = {
    "join of points and areas": ("VIBE_SPATIAL_JOIN", COUNT, {"point_in_polygon", "spatial_query", "point_binary_relations"},
                                 {"polygon_predicates", "segment_distance", "point_near_cells", "point_distance"}),
    "join of lines and areas": ("VIBE_SPATIAL_JOIN", "SELECT count(*) FROM roads r JOIN areas a ON ST_Touches(r.g, a.g)",
                                {"polygon_predicates", "spatial_query", "wkb_codec"},
                                {"point_in_polygon", "segment_distance", "point_binary_relations", "multipoint_binary_relations"}),
    "join by a distance": ("VIBE_SPATIAL_JOIN", "SELECT count(*) FROM points p JOIN roads r ON ST_DWithin(p.g, r.g, 1)",
                           {"point_near_cells", "segment_distance"}, {"point_in_polygon", "polygon_predicates", "point_distance"}),
    "join of unknown kinds": ("VIBE_SPATIAL_JOIN", "SELECT count(*) FROM texts t JOIN areas a ON ST_Intersects(t.t::GEOMETRY, a.g)",
                              {"point_in_polygon", "polygon_predicates", "point_binary_relations"}, {"point_near_cells"}),
    "points among points": ("VIBE_KNN", "SELECT count(*) FROM vibe_knn('points', 'points', 2)", {"point_distance"},
                            {"shape_neighbours", "wkb_codec"}),
    "points among lines": ("VIBE_KNN", "SELECT count(*) FROM vibe_knn('points', 'roads', 2)", {"shape_neighbours", "wkb_codec"},
                           {"point_distance"}),
    "points among unknown": ("VIBE_KNN", "SELECT count(*) FROM vibe_knn('points', 'SELECT t::GEOMETRY AS g FROM texts', 2)",
                             {"shape_neighbours", "wkb_codec", "point_distance"}, {"spatial_query"}),
    "neighbours in SQL": ("VIBE_KNN", "SELECT count(n.g) FROM points p, LATERAL (SELECT r.g FROM roads r ORDER BY ST_Distance(p.g, r.g) "
                                      "LIMIT 1) n", {"shape_neighbours"}, {"point_distance", "spatial_query"}),
    "ST_Union_Agg": ("ST_UNION_AGG", "SELECT ST_Union_Agg(g) FROM areas", UNION, {"spatial_query"}),
    "vibe_dissolve": ("ST_UNION_AGG", "FROM vibe_dissolve('SELECT 1 AS name, g FROM areas', by := 'name')", UNION, {"spatial_query"}),
    "vibe_overlay": ("ST_UNION_AGG", "FROM vibe_overlay('areas', 'areas', how := 'union')", UNION, {"spatial_query"}),
    "predicate": ("VIBE_SCALAR_BATCH", "SELECT count(*) FROM paired WHERE ST_Intersects(p, q)", {"wkb_codec", "point_binary_relations"},
                  {"polygon_predicates", "segment_distance", "measures"}),
    "distance": ("VIBE_SCALAR_BATCH", "SELECT sum(ST_Distance(p, q)) FROM paired", {"wkb_codec", "segment_distance"},
                 {"polygon_predicates", "point_distance", "point_binary_relations"}),
    "area": ("VIBE_SCALAR_BATCH", "SELECT sum(ST_Area(q)) FROM paired", {"wkb_codec", "measures", "exclusive_scan_i32"},
             {"exclusive_scan_i64", "segment_distance"}),
}


@pytest.mark.parametrize("mode", ["auto", "gpu"])
@pytest.mark.parametrize("what", PLANS)
def test_plans_ask_while_the_engine_opens(process, fake, what, mode):  # noqa: F811
    """The engine takes two seconds to open; nothing of what was planned meanwhile is lost"""
    operator, sql, asked, others = PLANS[what]
    state = "SELECT detail FROM vibe_gpu_info() WHERE component = 'plug-in'"
    start = ["FROM vibe_ensure_warm(0, 'knn')"] if mode == "auto" else []
    load, results = process(*start, "SET vibe_gpu_min_rows = 0", *TABLES, f"EXPLAIN {sql}",
                            "SELECT count(*) FROM vibe_precompile_status() WHERE state <> 'idle' AND kind <> 'total'", state,
                            ASKED, VIBESPATIAL_GPU_FOLDER=str(fake), FAKE_GPU="slow", VIBESPATIAL_EXECUTION_MODE=mode)
    explained, before, opened, rows = results[-4:]
    assert not isinstance(explained, str), explained
    assert before == [[0]]  # it was not open yet
    names = {name for name, by in rows if by == operator}
    assert asked <= names and not others & names, (sorted(names), opened)


def test_a_plan_that_fails_to_open_asks_for_nothing(process, tmp_path):  # noqa: F811
    load, results = process("FROM vibe_ensure_warm(0.1, 'knn')", *TABLES, COUNT, ASKED, VIBESPATIAL_GPU_FOLDER=str(tmp_path))
    assert results[-2] == [[results[-2][0][0]]] and results[-1] == []


#: The only kernels that become ready, what runs with them, and its operation
ENOUGH = {
    "a count of points in areas": ("point_in_polygon", COUNT, "join_points"),
    "a count of points near lines": ("point_near_cells", "SELECT count(*) FROM points p JOIN roads r ON ST_DWithin(p.g, r.g, 0.1)", "join_points"),
    "points among points": ("point_distance", "SELECT count(*) FROM vibe_knn('points', 'points', 2)", "knn"),
    "points among lines": ("shape_neighbours,wkb_codec", "SELECT count(*) FROM vibe_knn('points', 'roads', 2)", "knn_shapes"),
    "points within a distance of points": ("point_distance", "SELECT count(*) FROM paired WHERE ST_DWithin(p, r, 2)",
                                           "scalar_pairs"),
    "points in boxes": ("point_binary_relations,wkb_codec", "SELECT count(*) FROM paired WHERE ST_Intersects(p, q)", "scalar_pairs"),
}


@pytest.mark.parametrize("what", ENOUGH)
def test_work_waits_for_its_own_kernels_only(process, fake, what):  # noqa: F811
    kernels, sql, operation = ENOUGH[what]
    load, results = process("FROM vibe_ensure_warm(0.1, 'knn')", "SET vibe_execution_mode = 'gpu'", "SET vibe_compile_timeout = 1", *TABLES, sql,
                            WAITED.format(operation), "SET vibe_execution_mode = 'cpu'", sql,
                            VIBESPATIAL_GPU_FOLDER=str(fake), FAKE_GPU_WARM=kernels)
    on_gpu, waited, _, on_cpu = results[-4:]
    assert on_gpu == on_cpu and on_gpu[0][0] > 0
    (_, actual, names, sources, waited_ms, reason), = waited
    assert (actual, sorted(names), sources) == ("gpu", sorted(kernels.split(",")), ["pack"]), reason
    assert waited_ms < 1000


def test_one_kernel_is_missing(process, fake):  # noqa: F811
    """The CPU takes over after vibe_kernel_timeout for all waits together, and the log says what did not come"""
    load, results = process("FROM vibe_ensure_warm(0.1, 'knn')", "SET vibe_kernel_timeout = 0.3", "SET vibe_gpu_min_rows = 0", *TABLES,
                            "SELECT count(*) FROM roads r JOIN areas a ON ST_Touches(r.g, a.g)", WAITED.format("join_shapes"),
                            VIBESPATIAL_GPU_FOLDER=str(fake), FAKE_GPU_WARM="wkb_codec,spatial_query,bounds,indexing,hilbert_codes,"
                            "exclusive_scan_i32,segmented_reduce_min_f64,segmented_reduce_max_f64,radix_sort_u64_i32")
    (operation, actual, kernels, sources, waited, reason), = results[-1]
    assert actual == "cpu" and "kernel polygon_predicates was not ready after 0.3 seconds" in reason
    assert {"wkb_codec", "spatial_query", "polygon_predicates"} <= set(kernels) and set(sources) == {"pack", "not ready"}
    assert 250 < waited < 2000


def test_work_on_the_cpu_waits_for_no_kernel(process, fake):  # noqa: F811
    load, results = process("FROM vibe_ensure_warm(5, 'knn')", *TABLES, "SELECT count(*) FROM roads r JOIN areas a ON ST_Touches(r.g, a.g)",
                            WAITED.format("join_points"), VIBESPATIAL_GPU_FOLDER=str(fake))
    assert results[-1][0][1:5] == ["cpu", [], [], 0.0]


def test_specs_without_an_operator_are_on_demand(process, fake):  # noqa: F811
    """vibe_ensure_warm() does not ask for them, and the status says so"""
    load, results = process("FROM vibe_ensure_warm(5)", "SELECT name, state, error FROM vibe_precompile_status() WHERE kind <> 'total'",
                            VIBESPATIAL_GPU_FOLDER=str(fake))
    states = {name: (state, error) for name, state, error in results[1]}
    assert results[0] == [] and states["radix_sort_u64_i32"] == ("ready", None) and states["overlay_rings"] == ("ready", None)
    idle = {name for name, (state, error) in states.items() if state == "idle"}
    assert len(idle) == 13 and "merge_sort_u64_i32" in idle
    assert {states[name][1] for name in idle} == {"on demand: no operator needs it"}
