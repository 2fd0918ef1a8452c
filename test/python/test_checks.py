"""The checks of the sources (make check) find what they look for."""
import check_layers
import check_links
import check_sizes
import check_tests
import pytest


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A function that makes files of a repository of its own, which the checks then look at"""
    for module in (check_layers, check_links, check_sizes, check_tests):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    for module in (check_layers, check_tests):
        monkeypatch.setattr(module, "SOURCE", tmp_path / "src")
    monkeypatch.setattr(check_sizes, "EXCEPTIONS", {})
    monkeypatch.setattr(check_tests, "TESTED_BY", {})

    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


def outcome(check, capsys):
    status = check.main()
    return status, capsys.readouterr().out


def test_layers(tree, capsys):
    tree({"src/geometry/a.hpp": '#include "engine/join/b.hpp"\n', "src/engine/join/b.hpp": ""})
    status, text = outcome(check_layers, capsys)
    assert status == 1 and "src/geometry/a.hpp: includes engine/join/b.hpp" in text
    tree({"src/geometry/a.hpp": '#include "geometry/c.hpp"\n', "src/geometry/c.hpp": '#include "geometry/a.hpp"\n'})
    status, text = outcome(check_layers, capsys)
    assert status == 1 and "include each other: geometry/a.hpp -> geometry/c.hpp -> geometry/a.hpp" in text
    tree({"src/geometry/c.hpp": ""})
    assert outcome(check_layers, capsys)[0] == 0


def test_tests(tree, capsys):
    tree({"src/engine/join/a.cpp": "", "src/duckdb/functions/b.cpp": 'SqlFunction("ST_B", "Does b.")', "src/duckdb/knn/c.cpp": "",
          "kernels/d.cu": ""})
    status, text = outcome(check_tests, capsys)
    assert status == 1
    assert "src/engine/join/a.cpp: no test/unit/join/a.cpp" in text
    assert "src/duckdb/functions/b.cpp: no SQL or Python test calls ST_B" in text
    assert "src/duckdb/knn/c.cpp: registers no function" in text
    assert "kernels/d.cu: no unit test includes it" in text
    tree({"test/unit/join/other.cpp": '#include "engine/join/a.hpp"\n#include "kernels/d.cu"\n',
          "test/sql/b.test": "SELECT vibe_b(1)", "test/sql/c.test": ""})
    check_tests.TESTED_BY["duckdb/knn"] = (["test/sql/c.test"], "one operator")
    assert outcome(check_tests, capsys)[0] == 0
    # Entries that are not needed, and tests that are gone
    check_tests.TESTED_BY["engine/join/a.cpp"] = (["test/sql/gone.test"], "none")
    status, text = outcome(check_tests, capsys)
    assert status == 1 and "src/engine/join/a.cpp is gone or has a test" in text and "test/sql/gone.test is not there" in text


def test_sizes(tree, capsys):
    tree({"src/geometry/long.cpp": "\n" * 701, **{f"src/engine/join/a{i}.hpp": "" for i in range(21)}})
    status, text = outcome(check_sizes, capsys)
    assert status == 1 and "src/geometry/long.cpp: 701 lines" in text and "src/engine/join: 21 sources" in text
    check_sizes.EXCEPTIONS.update({"src/geometry/long.cpp": "a table", "src/engine/join": "a list"})
    assert outcome(check_sizes, capsys)[0] == 0
    tree({"src/geometry/long.cpp": ""})
    status, text = outcome(check_sizes, capsys)
    assert status == 1 and "remove it from EXCEPTIONS" in text


def test_links(tree, capsys):
    page = "# Page\n\n[a](other.md) [b](#page) [c](other.md#a-heading) [d](gone.md) [e](other.md#gone) [f](https://x.org/g) `src/gone.cpp`\n"
    tree({"docs/page.md": page, "docs/other.md": "## A heading\n\n```\n[not a link](nowhere)\n```\n"})
    status, text = outcome(check_links, capsys)
    assert status == 1
    assert [line.split(": ")[1] for line in text.splitlines()] == [
        "links to gone.md, which is not there", "links to other.md#gone, but other.md has no such heading",
        "names src/gone.cpp, which is not there"]
    tree({"docs/page.md": "[a](other.md#a-heading)"})
    assert outcome(check_links, capsys)[0] == 0
