"""Pinned tables outlive the connections that made them, hear of commits that fail halfway, and leave the device when they are of no use."""
from test_gpu_runtime import fake, process  # noqa: F401 (fixtures)
from test_pin import connections  # noqa: F401 (a fixture)

SHAPES = "CREATE TABLE shapes AS SELECT i AS id, ST_MakeEnvelope(i % 40, i % 38, i % 40 + 0.5, i % 38 + 0.5) AS g FROM range(20000) t(i)"


def test_closed_connections(connections):  # noqa: F811
    """Host copies of shapes, made by vibe_pin, and of points and columns, made by the first query, are read when their connections are gone"""
    results = connections(f"""
database.execute("{SHAPES}")
SHAPES = "SELECT p.id, ST_AsText(p.g), a.zone FROM shapes p JOIN areas a ON ST_Overlaps(p.g, a.g) ORDER BY ALL"
POINTS = "SELECT p.id, ST_AsText(p.g), a.zone FROM points p JOIN areas a ON ST_Within(p.g, a.g) ORDER BY ALL"
pin()
with database.cursor() as other:
    other.execute("CALL vibe_pin('shapes', columns := ['g', 'id'])")
with database.cursor() as other:
    other.execute("SET vibe_execution_mode = 'gpu'")
    check('points', other, POINTS)
for number in range(3):
    check('points again', sql=POINTS)
    check('shapes', sql=SHAPES)
""")
    assert {name: row[0] for name, row in results.items()} == {"points": True, "points again": True, "shapes": True}


def test_a_commit_that_fails_halfway(connections):  # noqa: F811
    """The database is committed, and then the temporary tables cannot be: the changes are visible all the same"""
    results = connections("""
database.execute("SET threads = 1; SET max_temp_directory_size = '0KB'")
other = database.cursor()
other.execute("CREATE TEMP TABLE much (k BIGINT PRIMARY KEY, v VARCHAR)")
failed = 0
for number in range(3):
    pin()
    check('before')
    other.execute("BEGIN; SELECT count(*) FROM much").fetchall()
    other.execute(f"DELETE FROM points WHERE id BETWEEN {1000 * number} AND {1000 * number + 900}")
    other.execute(f"INSERT INTO much SELECT i + {number} * 10000000, 'x' FROM range(1500000) t(i)")
    [used] = database.execute("SELECT sum(memory_usage_bytes) FROM duckdb_memory()").fetchone()
    database.execute(f"SET memory_limit = '{used // 1000 + 2000 + 4000 * number}KB'")
    try:
        other.execute("COMMIT")
    except duckdb.Error as error:
        failed += "Failed to commit" in str(error)
    database.execute("SET memory_limit = '4GB'")
    check('after')
results.append(['failed', failed])
""")
    assert results["failed"][0] > 0, "no commit failed: the test needs less memory"
    assert results["before"][0] and not results["after"][0] and "its database has changed" in results["after"][1]


def test_invalid_tables_make_room(connections):  # noqa: F811
    """A table that is pinned again takes the place of its old copy, not of another table"""
    results = connections("""
for name in ('one', 'two'):
    database.execute(f"ATTACH ':memory:' AS {name}; CREATE TABLE {name}.points AS SELECT p.* FROM points p, range(4)")
database.execute("SET vibe_gpu_memory_limit = '12MB'")
pin('one.points')
pin('two.points')
for number in range(3):
    database.execute("DELETE FROM two.points WHERE id = ?", [number])
    pin('two.points')
check('the other', sql=COUNT.replace('points', 'one.points'))
check('the same', sql=COUNT.replace('points', 'two.points'))
database.execute("DROP TABLE one.points")
check('another query frees it', sql=COUNT.replace('points', 'two.points'))
results.append(['memory', *database.execute("SELECT count FROM vibe_memory_status() WHERE name = 'pinned tables'").fetchone()])
""")
    assert [results[name][0] for name in ("the other", "the same", "another query frees it")] == [True] * 3
    assert results["memory"] == [1]


def test_names(process, fake):  # noqa: F811
    """Tables whose names have dots are two tables; vibe_unpin reads names as vibe_pin does"""
    table = "AS SELECT ST_Point(i, i) AS g FROM range({}) t(i)"
    statements = ['CREATE SCHEMA "a.b"', "CREATE SCHEMA a", f'CREATE TABLE "a.b".c {table.format(10)}', f'CREATE TABLE a."b.c" {table.format(20)}',
                  "ATTACH ':memory:' AS other", f"CREATE TABLE other.points {table.format(30)}", """CALL vibe_pin('"a.b".c')""", """CALL vibe_pin('a."b.c"')""",
                  "CALL vibe_pin('other.points')"]
    load, results = process(*statements, 'SELECT table_name, rows FROM vibe_pins() ORDER BY rows', "CALL vibe_unpin('b.c')", "CALL vibe_unpin('nts')", "CALL vibe_unpin('OTHER.points')",
                            """CALL vibe_unpin('"b.c"')""", """CALL vibe_unpin('memory."a.b".c')""", "FROM vibe_pins()", VIBESPATIAL_GPU_FOLDER=str(fake))
    pins, unknown, part, other, quoted, whole, left = results[len(statements):]
    assert pins == [['memory."a.b".c', 10], ['memory.a."b.c"', 20], ["other.main.points", 30]]
    assert "no pinned table is called b.c" in unknown and "no pinned table is called nts" in part
    assert [other[0][0], quoted[0][0], whole[0][0], left] == ["other.main.points", 'memory.a."b.c"', 'memory."a.b".c', []]
