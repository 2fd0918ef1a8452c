"""A hook of mkdocs: the part of the navigation that follows from the files.

Decisions, and pages that lie directly in docs and have no place of their own in mkdocs.yml, become part of Internals under their headings.
"""
import pathlib


def title(page):
    """The first heading of a page"""
    return next(line[2:].strip().replace("`", "") for line in page.read_text().splitlines() if line.startswith("# "))


def named(nav):
    """All pages that a navigation names"""
    for entry in nav:
        for target in entry.values() if isinstance(entry, dict) else [entry]:
            yield from named(target) if isinstance(target, list) else [target]


def on_config(config):
    docs = pathlib.Path(config.docs_dir)
    known = set(named(config.nav))
    internals = next(entry["Internals"] for entry in config.nav if "Internals" in entry)
    internals += [{title(page): page.name} for page in sorted(docs.glob("*.md")) if page.name not in known]
    internals.append({"Decisions": [{title(page): f"decisions/{page.name}"} for page in sorted((docs / "decisions").glob("*.md"))]})
    return config
