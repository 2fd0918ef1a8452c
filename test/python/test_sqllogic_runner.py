"""The sqllogictest runner: files that must pass, must fail and must be skipped, each for the reason it states.

A file under selftest/fail or selftest/skip names in its "# expect:" line what the runner has to print.
"""

import os
import pathlib
import re
import signal
import subprocess
import time

import duckdb
import pytest

from conftest import ROOT, VERSION_BUILD

SELFTEST = ROOT / "test" / "sqllogic" / "selftest"
RUNNER = pathlib.Path(os.environ.get("VIBESPATIAL_SQLLOGIC", VERSION_BUILD / "test" / "vibespatial_sqllogic"))
EXTENSION = pathlib.Path(os.environ.get("VIBESPATIAL_EXTENSION", VERSION_BUILD / "vibespatial.duckdb_extension"))

pytestmark = pytest.mark.skipif(not RUNNER.exists(), reason=f"no runner at {RUNNER}")
needs_extension = pytest.mark.skipif(not EXTENSION.exists(), reason=f"no extension at {EXTENSION}")


def run(*arguments, env=None):
    return subprocess.run(
        [str(RUNNER), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        env={**os.environ, **(env or {})},
    )


def counts(result):
    """(passed, failed, skipped) from the last line"""
    match = re.fullmatch(r"sqllogic: (\d+) passed, (\d+) failed, (\d+) skipped", result.stdout.splitlines()[-1])
    assert match, result.stdout
    return tuple(map(int, match.groups()))


def write(folder, text, name="a.test"):
    path = folder / name
    path.write_text(text)
    return path


def selftests(kind):
    files = sorted((SELFTEST / kind).iterdir())
    assert files
    return [pytest.param(file, id=file.stem) for file in files]


def expectation(file):
    return re.search(r"^# expect: (.+)$", file.read_text(), re.MULTILINE).group(1)


@pytest.mark.parametrize("file", selftests("pass"))
def test_pass(file, tmp_path):
    result = run("--slow", "--data", tmp_path, file)
    assert counts(result) == (1, 0, 0), result.stdout
    assert result.returncode == 0


@pytest.mark.parametrize("file", selftests("fail"))
def test_fail(file):
    result = run(file)
    assert counts(result) == (0, 1, 0), result.stdout
    assert result.returncode == 1
    assert f"FAIL {file} [cpu]" in result.stdout
    assert expectation(file) in result.stdout


@pytest.mark.parametrize("file", selftests("skip"))
def test_skip(file):
    result = run(file)
    assert counts(result) == (0, 0, 1), result.stdout
    assert result.returncode == 0
    assert f"SKIP {file} [cpu]: {expectation(file)}" in result.stdout


def test_failure_shows_statement_expected_and_actual(tmp_path):
    file = write(tmp_path, "query IT\nSELECT 1,\n'x'\n----\n1\ty\n")
    assert run(file).stdout == (
        f"FAIL {file} [cpu]\n{file}:1: wrong result\nexpected (1 row)\n  > 1\ty\nactual (1 row)\n  > 1\tx\n"
        "statement\nSELECT 1,\n'x'\n\nsqllogic: 0 passed, 1 failed, 0 skipped\n"
    )


def test_folder_runs_every_file_after_a_failure(tmp_path):
    (tmp_path / "sub").mkdir()
    write(tmp_path, "query I\nSELECT 1\n----\n2\n", "a.test")
    write(tmp_path, "statement ok\nSELECT 1\n", "sub/b.test")
    write(tmp_path, "statement ok\nSELECT 1\n", "sub/c.test_slow")
    write(tmp_path, "not a test", "sub/readme.md")
    result = run("-v", tmp_path)
    assert counts(result) == (1, 1, 1), result.stdout
    assert result.returncode == 1
    assert f"PASS {tmp_path}/sub/b.test [cpu]" in result.stdout
    assert counts(run("--slow", tmp_path)) == (2, 1, 0)


def test_files_do_not_share_a_database(tmp_path):
    write(tmp_path, "statement ok\nCREATE TABLE t (i INTEGER)\n", "a.test")
    write(tmp_path, "statement ok\nCREATE TABLE t (i INTEGER)\n", "b.test")
    assert counts(run(tmp_path)) == (2, 0, 0)


def test_temporary_folder_is_removed(tmp_path):
    file = write(tmp_path, "load __TEST_DIR__/x.db\n\nstatement ok\nCREATE TABLE t (i INTEGER)\n")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    assert counts(run(file, env={"TMPDIR": str(scratch)})) == (1, 0, 0)
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("engine", ["cpu", "gpu"])
def test_engine_conditions(engine, tmp_path):
    file = write(tmp_path, f"skipif {engine}\nstatement ok\nSELECT error('x')\n\nonlyif {engine}\nstatement ok\nSELECT 1\n")
    result = run("-v", "--engine", engine, file)
    assert counts(result) == (1, 0, 0), result.stdout
    assert f"[{engine}]" in result.stdout
    other = {"cpu": "gpu", "gpu": "cpu"}[engine]
    assert counts(run("--engine", other, file)) == (0, 1, 0)


def test_verification_can_be_left_out(tmp_path):
    file = write(tmp_path, "skipif verify\nstatement ok\nSELECT error('not verified')\n\nonlyif verify\nhalt\n\nstatement ok\nSELECT 1\n")
    assert counts(run("--verify", file)) == (0, 0, 1)
    assert "not verified" in run(file).stdout


@pytest.mark.skipif(not duckdb.__version__.startswith("1."), reason="2.0 runs a query in one other way and compares nothing")
def test_verification_sees_a_query_that_differs(tmp_path):
    file = write(tmp_path, "statement ok\nCREATE SEQUENCE s\n\nquery I\nSELECT nextval('s')\n----\n1\n")
    assert counts(run(file)) == (1, 0, 0)
    result = run("--verify", file)
    assert counts(result) == (0, 1, 0)
    assert "differs from original result" in result.stdout


def test_control_on_gpu():
    assert counts(run("--engine", "gpu", SELFTEST / "pass" / "control.test")) == (1, 0, 0)


def test_missing_data_folder(tmp_path):
    file = write(tmp_path, "statement ok\nSELECT '{DATA_DIR}'\n")
    assert "no data folder" in run("--data", tmp_path / "none", file).stdout


def child_of(parent):
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "stat").read_text().rsplit(")", 1)[1].split()[1] == str(parent):
                return int(entry.name)
        except OSError:
            pass
    return None


def test_crash_fails_one_file_and_names_the_line(tmp_path):
    write(tmp_path, "statement ok\nSELECT 1\n\nsleep 60 seconds\n", "a.test")
    write(tmp_path, "statement ok\nSELECT 1\n", "b.test")
    process = subprocess.Popen([str(RUNNER), str(tmp_path)], stdout=subprocess.PIPE, text=True)
    deadline = time.time() + 30
    child = None
    while child is None and time.time() < deadline:
        time.sleep(0.05)
        child = child_of(process.pid)
    time.sleep(0.5)
    os.kill(child, signal.SIGKILL)
    output = process.communicate(timeout=30)[0]
    assert process.returncode == 1
    assert f"{tmp_path}/a.test:4: crashed (Killed)" in output
    assert output.endswith("sqllogic: 1 passed, 1 failed, 0 skipped\n")


def test_timeout(tmp_path):
    file = write(tmp_path, "statement ok\nSELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b\n")
    result = run("--timeout", 1, file)
    assert counts(result) == (0, 1, 0)
    assert f"{file}:1: timed out after 1 s\nstatement\nSELECT sum" in result.stdout


@pytest.mark.parametrize(
    "arguments, problem",
    [
        ([], "no files given"),
        (["no_such_file.test"], "no such file or folder"),
        (["--engine", "tpu", "a.test"], "unknown engine"),
        (["--extension", "none", "a.test"], "no such file: none"),
        (["--timeout"], "--timeout needs a value"),
        (["--timeout", "soon", "a.test"], "not a number of seconds"),
        (["--fast", "a.test"], "unknown option --fast"),
    ],
)
def test_usage(arguments, problem):
    result = run(*arguments)
    assert result.returncode == 2
    assert problem in result.stdout


def test_folder_without_tests(tmp_path):
    result = run(tmp_path)
    assert result.returncode == 2
    assert "no .test files" in result.stdout


def test_file_that_is_no_extension(tmp_path):
    extension = write(tmp_path, "text", "vibespatial.duckdb_extension")
    file = write(tmp_path, "statement ok\nSELECT 1\n")
    result = run("--extension", extension, file)
    assert counts(result) == (0, 1, 0)
    assert "cannot load the extension" in result.stdout


SHOW_ENGINE = "SELECT value FROM duckdb_settings() WHERE name = 'vibe_execution_mode'"


@needs_extension
@pytest.mark.parametrize("require", ["require vibespatial\n\n", ""])
def test_extension_is_loaded(require, tmp_path):
    file = write(
        tmp_path,
        require + "query I\nSELECT loaded FROM duckdb_extensions() WHERE extension_name = 'vibespatial'\n----\ntrue\n",
    )
    assert counts(run("--extension", EXTENSION, "--engine", "cpu", file)) == (1, 0, 0)


@needs_extension
def test_engine_is_set_on_every_connection_and_after_restart(tmp_path):
    check = f"{SHOW_ENGINE}\n----\ncpu\n\n"
    file = write(
        tmp_path,
        f"require vibespatial\n\nquery T\n{check}query T con1\n{check}"
        f"statement ok\nSET vibe_execution_mode = 'auto'\n\nrestart\n\nquery T\n{check}query T con1\n{check}"
        f"load __TEST_DIR__/x.db\n\nquery T\n{check}",
    )
    result = run("--extension", EXTENSION, "--engine", "cpu", file)
    assert counts(result) == (1, 0, 0), result.stdout


@needs_extension
def test_every_engine_present_is_run(tmp_path):
    file = write(tmp_path, "require vibespatial\n\nstatement ok\nSELECT 1\n")
    present = sum(
        run("--extension", EXTENSION, "--engine", engine, file).returncode == 0 for engine in ("cpu", "gpu")
    )
    assert present >= 1
    assert counts(run("--extension", EXTENSION, file)) == (present, 0, 0)


DUCKDBS_COMMANDS = {"statement", "query", "loop", "foreach", "endloop", "require", "require-env", "load", "restart", "skipif", "onlyif",
                    "mode", "halt", "sleep", "set"}


@pytest.mark.parametrize("file", sorted((ROOT / "test" / "sql").rglob("*.test*")), ids=lambda file: file.stem)
def test_files_suit_duckdbs_own_runner(file):
    """A build in DuckDB's tree runs them too. There a loop's variable is replaced in SQL alone: not in a label, not in a result."""
    at_command, in_result = True, False
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if not line:
            at_command, in_result = True, False
        elif at_command and not line.startswith("#"):
            assert line.split()[0] in DUCKDBS_COMMANDS, f"line {number}"
            assert not line.startswith("query") or "{" not in line, f"line {number}: a variable in a label"
            at_command = line.startswith(("skipif", "onlyif"))
        elif line == "----":
            in_result = True
        else:
            assert not in_result or "${" not in line, f"line {number}: a variable in a result"
