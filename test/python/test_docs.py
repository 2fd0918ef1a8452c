"""The pages of the documentation: titles, figures, settings, and the SQL of the quick start. scripts/check_links.py checks the links."""
import pathlib
import re


ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def name(page):
    return page.relative_to(ROOT).as_posix()


def test_every_page_has_one_title():
    for page in PAGES:
        titles = re.findall(r"^# .+$", FENCE.sub("", page.read_text()), re.MULTILINE)
        assert len(titles) == 1, name(page)


def test_the_site_has_a_place_for_every_page():
    """scripts/docs_nav.py places decisions and pages directly in docs; all others stand in mkdocs.yml, once."""
    nav = re.findall(r"^ +- .+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert len(nav) == len(set(nav)) and all((ROOT / "docs" / page).is_file() for page in nav)
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in PAGES if page != ROOT / "README.md"}
    placed = {page for page in pages if "/" not in page or page.startswith("decisions/")}
    assert pages - placed <= set(nav)


def test_one_page_shows_all_figures():
    figures = {f"figures/{path.name}" for path in (ROOT / "docs" / "figures").glob("*.svg")}
    assert figures == set(re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (ROOT / "docs" / "figures.md").read_text()))


def test_settings_page_lists_all_settings(con):
    settings = dict(con.execute("SELECT name, value FROM duckdb_settings() WHERE starts_with(name, 'vibe_')").fetchall())
    rows = re.findall(r"^\| `(vibe_\w+)` \| `VIBESPATIAL_\w+` \| (\S+) \|", (ROOT / "docs" / "use" / "settings.md").read_text(), re.MULTILINE)
    defaults = {setting: "" if value == "empty" else value.strip("`") for setting, value in rows}
    settings["vibe_kernel_timeout"] = settings["vibe_kernel_timeout"].removesuffix(".0")
    assert defaults == settings


def test_quick_start(con, monkeypatch):
    monkeypatch.chdir(ROOT)
    blocks = [text for kind, text in FENCE.findall((ROOT / "docs" / "use" / "quick-start.md").read_text()) if kind == "sql"]
    assert len(blocks) >= 6
    for block in blocks:
        for statement in block.split(";"):
            if statement.strip() and "LOAD" not in statement:
                assert con.execute(statement).fetchall(), statement
