#!/usr/bin/env python3
"""Checks the links of the documentation: files and headings that they point to are there.

usage: check_links.py

A path in backticks that begins with a folder of the repository or of src (`engine/join/probe.cpp`) counts as a link, too, except in
decisions, which tell what was.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
PATH = re.compile(r"`((?:src|engine|duckdb|geometry|gpu_plugin|test|scripts|kernels|docs|cmake|bench|data|python)/[\w./-]+)`")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)


def headings(path):
    """The anchors that GitHub gives to the headings of a page"""
    result = set()
    for title in re.findall(r"^#+ +(.*)$", FENCE.sub("", path.read_text()), re.M):
        anchor = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()).strip().replace(" ", "-")
        number = 1
        unique = anchor
        while unique in result:
            unique = f"{anchor}-{number}"
            number += 1
        result.add(unique)
    return result


def problems_of(path):
    text = FENCE.sub("", path.read_text())
    targets = LINK.findall(text) + ["".join(groups) for groups in PICTURE.findall(text)]
    for target in targets:
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        other = (path.parent / name).resolve() if name else path
        if not other.exists():
            yield f"links to {target}, which is not there"
        elif anchor and other.suffix == ".md" and anchor not in headings(other):
            yield f"links to {target}, but {other.name} has no such heading"
    if "decisions" not in path.parts:
        for name in PATH.findall(text):
            if not any((base / name).exists() for base in (ROOT, ROOT / "src")):
                yield f"names {name}, which is not there"


def main():
    pages = sorted(path for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "data").rglob("*.md"),
                                     *(ROOT / "python").rglob("*.md")])
    problems = [f"{path.relative_to(ROOT)}: {text}" for path in pages for text in problems_of(path)]
    print("\n".join(problems) if problems else f"{len(pages)} pages, every link leads somewhere")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
