"""The settings of the extension and the environment variables that give their defaults."""
import duckdb
import pytest


def value(connection, expression):
    return connection.execute(f"SELECT {expression}").fetchone()[0]


def test_execution_mode(con):
    assert value(con, "current_setting('vibe_execution_mode')") == "auto"
    con.execute("SET vibe_execution_mode = 'CPU'")
    assert value(con, "current_setting('vibe_execution_mode')") == "cpu"
    for wrong in ("'fast'", "''", "NULL"):
        with pytest.raises(duckdb.InvalidInputException, match="'auto', 'cpu', 'gpu'"):
            con.execute(f"SET vibe_execution_mode = {wrong}")
    assert value(con, "current_setting('vibe_execution_mode')") == "cpu"
    con.execute("RESET vibe_execution_mode")
    assert value(con, "current_setting('vibe_execution_mode')") == "auto"


@pytest.mark.parametrize("mode, expected", [("cpu", "cpu"), ("Auto", "auto"), ("", "auto"), ("GPU", "gpu"),
                                            ("warp", "VIBESPATIAL_EXECUTION_MODE = 'warp': the execution mode")])
def test_default_from_the_environment(connect, monkeypatch, mode, expected):
    monkeypatch.setenv("VIBESPATIAL_EXECUTION_MODE", mode)
    if expected in ("auto", "cpu", "gpu"):
        with connect() as connection:
            assert value(connection, "current_setting('vibe_execution_mode')") == expected
    else:
        with pytest.raises(duckdb.Error, match=expected):
            connect()


GPU_SETTINGS = [
    # setting, default, good values and what they become, bad values
    ("vibe_precompile", "auto", {"'ALL'": "all", "'off'": "off"}, ["'some'", "''", "NULL"]),
    ("vibe_kernel_source", "auto", {"'Pack'": "pack", "'jit'": "jit"}, ["'disk'", "NULL"]),
    ("vibe_memory_tier", "safe", {"'pool'": "pool", "'managed'": "managed"}, ["'host'", "NULL"]),
    # Another device would be refused where an engine is open: see test_gpu_runtime.py
    ("vibe_gpu_device", 0, {"0": 0}, ["-1", "5000", "NULL"]),
    ("vibe_gpu_memory_limit", "", {"'8GB'": "8GB", "'0'": "0", "''": ""}, ["'8 apples'", "'-1GB'", "'none'"]),
    ("vibe_cache_dir", "", {"'/tmp/kernels'": "/tmp/kernels", "NULL": ""}, []),
    ("vibe_cache_limit", "256MiB", {"'1GB'": "1GB"}, ["'0'", "'lots'", "NULL"]),
    ("vibe_compile_workers", 0, {"4": 4}, ["-1", "100000", "NULL"]),
    ("vibe_compile_timeout", 180, {"20": 20}, ["0", "-1", "NULL"]),
    ("vibe_kernel_timeout", 2.0, {"0": 0.0, "0.5": 0.5}, ["-1", "'nan'", "NULL"]),
]


@pytest.mark.parametrize("name, default, good, bad", GPU_SETTINGS, ids=[row[0] for row in GPU_SETTINGS])
def test_gpu_settings(con, name, default, good, bad):
    assert value(con, f"current_setting('{name}')") == default
    for given, expected in good.items():
        con.execute(f"SET {name} = {given}")
        assert value(con, f"current_setting('{name}')") == expected
        for wrong in bad:
            with pytest.raises(duckdb.InvalidInputException, match=name):
                con.execute(f"SET {name} = {wrong}")
        assert value(con, f"current_setting('{name}')") == expected
    with pytest.raises(duckdb.InvalidInputException, match=f"SET GLOBAL {name}"):
        con.execute(f"SET SESSION {name} = {next(iter(good))}")
    con.execute(f"RESET {name}")
    assert value(con, f"current_setting('{name}')") == default


@pytest.mark.parametrize("variable, setting, good, bad", [
    ("VIBESPATIAL_PRECOMPILE", "vibe_precompile", "OFF", "never"),
    ("VIBESPATIAL_KERNEL_SOURCE", "vibe_kernel_source", "jit", "net"),
    ("VIBESPATIAL_CACHE_DIR", "vibe_cache_dir", "/tmp/kernels", None),
])
def test_gpu_defaults_from_the_environment(connect, monkeypatch, variable, setting, good, bad):
    monkeypatch.setenv(variable, good)
    with connect() as connection:
        assert value(connection, f"current_setting('{setting}')") == good.lower()
    if bad:
        monkeypatch.setenv(variable, bad)
        with pytest.raises(duckdb.Error, match=f"{variable} = '{bad}'"):
            connect()
