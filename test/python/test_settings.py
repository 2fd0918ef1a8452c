"""The settings of the extension and the environment variables that give their defaults."""
import json
import os
import subprocess
import sys

import duckdb
import pytest

from conftest import ROOT


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
    ("vibe_gpu_fp32", "auto", {"'auto'": "auto"}, ["'half'", "NULL"]),
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


# Every setting: a value of its variable, what it becomes, and one that LOAD refuses
VARIABLES = {
    "vibe_arrow_encoding": ("Point", "point", "square"),
    "vibe_arrow_library": ("/opt/arrow/lib", "/opt/arrow/lib", "lib"),
    "vibe_cache": ("1GB", "1GB", "much"),
    "vibe_cache_dir": ("/tmp/kernels", "/tmp/kernels", "kernels"),
    "vibe_cache_limit": ("1MiB", "1MiB", "0"),
    "vibe_compile_timeout": ("20", 20, "0"),
    "vibe_compile_workers": ("3", 3, "-1"),
    "vibe_deterministic": ("true", True, "maybe"),
    "vibe_execution_mode": ("CPU", "cpu", "fast"),
    "vibe_gpu_device": ("0", 0, "first"),
    "vibe_gpu_fp32": ("OFF", "off", "half"),
    "vibe_gpu_memory_limit": ("8GB", "8GB", "half"),
    "vibe_gpu_min_rows": ("7", 7, "few"),
    "vibe_gpu_strict": ("1", True, "very"),
    "vibe_join_partitions": ("5", 5, "-5"),
    "vibe_kernel_source": ("jit", "jit", "net"),
    "vibe_kernel_timeout": ("0.5", 0.5, "soon"),
    "vibe_log_queries": ("ALL", "all", "none"),
    "vibe_memory_tier": ("Pool", "pool", "host"),
    "vibe_precompile": ("OFF", "off", "never"),
    "vibe_rewrites": ("false", False, "some"),
}


def test_every_setting_has_a_variable(con):
    names = [name for (name,) in con.execute("SELECT name FROM duckdb_settings() WHERE name LIKE 'vibe_%' ORDER BY name").fetchall()]
    assert names == list(VARIABLES)
    docs = (ROOT / "docs/use/settings.md").read_text()
    for name in names:
        assert f"| `{name}` | `VIBESPATIAL_{name[5:].upper()}` | " in docs


@pytest.mark.parametrize("setting", VARIABLES)
def test_defaults_from_the_environment(extension, setting):
    """In a process of its own, since most of them are of the process"""
    good, expected, bad = VARIABLES[setting]
    variable = f"VIBESPATIAL_{setting[5:].upper()}"
    script = f"""
import duckdb, json
connection = duckdb.connect(config={{"allow_unsigned_extensions": "true"}})
try:
    connection.execute("LOAD '{extension}'")
    ask = "SELECT current_setting('{setting}')"
    first = connection.execute(ask).fetchone()[0]
    connection.execute("RESET {setting}")
    print(json.dumps([first, connection.execute(ask).fetchone()[0]]))
except duckdb.Error as error:
    print(json.dumps(str(error)))
"""

    def ask(text):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("VIBESPATIAL_")}
        result = subprocess.run([sys.executable, "-c", script], env={**clean, variable: text}, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    assert ask(good) == [expected, expected]
    assert variable in ask(bad) and bad in ask(bad)
    assert ask("")[0] != expected or setting == "vibe_gpu_device"
