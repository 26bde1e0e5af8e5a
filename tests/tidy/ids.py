#!/usr/bin/env python3
"""Prints the tables of sim/ids.md whose ids and texts are in the code.

    ids.py ROOT [--write]

Without --write: ends with 1 if a table of the page is another one.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])


def comment(lines):
    return " ".join(line.strip().removeprefix("///").strip() for line in lines.splitlines())


def causes():
    """(id, text) of each constant of cause.h, by the comment above it."""
    text = (ROOT / "sim/scenario/cause.h").read_text("utf-8")
    pattern = r'((?:^/// .*\n)+)^inline constexpr std::string_view k\w+ =\s+"(cause\.[a-z-]+)";'
    return [(id_, comment(lines)) for lines, id_ in re.findall(pattern, text, re.MULTILINE)]


def outcomes():
    """(id, text) of each outcome; one that no report shows has no comment."""
    header = (ROOT / "sim/verify/outcome.h").read_text("utf-8")
    body = re.search(r"enum class Outcome .*?\{\n(.*?)^\};", header, re.MULTILINE | re.DOTALL)[1]
    source = (ROOT / "sim/verify/outcome.cpp").read_text("utf-8")
    ids = re.findall(r'"(outcome\.[a-z-]+)"', source)
    entries = re.findall(r"((?:^  /// .*\n)*)^  k\w+,", body, re.MULTILINE)
    return [(id_, comment(lines)) for id_, lines in zip(ids, entries, strict=True) if lines]


def printed(page):
    """The page with these tables as the code has them."""
    for title, rows in (("Causes", causes()), ("Outcomes", outcomes())):
        lines = "".join(f"| `{id_}` | {text} |\n" for id_, text in rows)
        pattern = rf"(^## {title}\n.*?^\|---\|---\|\n)(?:\|[^\n]*\n)+"
        page, found = re.subn(pattern, lambda m, t=lines: m[1] + t, page, flags=re.M | re.S)
        assert found == 1 and len(rows) > 5, title
    return page


PAGE = ROOT / "sim/ids.md"
text = PAGE.read_text("utf-8")
if "--write" in sys.argv:
    PAGE.write_text(printed(text), "utf-8")
elif printed(text) != text:
    sys.exit("sim/ids.md is not printed from the code: run tests/tidy/ids.py . --write")
