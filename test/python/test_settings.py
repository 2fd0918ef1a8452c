"""The settings of the extension and the environment variables that give their defaults."""
import duckdb
import pytest


def value(connection, expression):
    return connection.execute(f"SELECT {expression}").fetchone()[0]


def test_execution_mode(con):
    assert value(con, "current_setting('vibe_execution_mode')") == "auto"
    con.execute("SET vibe_execution_mode = 'CPU'")
    assert value(con, "current_setting('vibe_execution_mode')") == "cpu"
    with pytest.raises(duckdb.InvalidInputException, match="no GPU engine; use 'auto' or 'cpu'"):
        con.execute("SET vibe_execution_mode = 'gpu'")
    for wrong in ("'fast'", "''", "NULL"):
        with pytest.raises(duckdb.InvalidInputException, match="'auto', 'cpu', 'gpu'"):
            con.execute(f"SET vibe_execution_mode = {wrong}")
    assert value(con, "current_setting('vibe_execution_mode')") == "cpu"
    con.execute("RESET vibe_execution_mode")
    assert value(con, "current_setting('vibe_execution_mode')") == "auto"


@pytest.mark.parametrize("mode, expected", [("cpu", "cpu"), ("Auto", "auto"), ("", "auto"),
                                            ("gpu", "VIBESPATIAL_EXECUTION_MODE = 'gpu': this build"),
                                            ("warp", "VIBESPATIAL_EXECUTION_MODE = 'warp': the execution mode")])
def test_default_from_the_environment(connect, monkeypatch, mode, expected):
    monkeypatch.setenv("VIBESPATIAL_EXECUTION_MODE", mode)
    if expected in ("auto", "cpu"):
        with connect() as connection:
            assert value(connection, "current_setting('vibe_execution_mode')") == expected
    else:
        with pytest.raises(duckdb.Error, match=expected):
            connect()
