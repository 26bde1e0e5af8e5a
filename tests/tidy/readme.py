#!/usr/bin/env python3
"""Every link of the project's own pages leads to a file or a heading that is there, and every
scenario that a command on them names is there. A C++ example has a name, by which tests/install
builds it. Messages of the program that send their reader to a heading are checked alike. README.md
has 160 lines at most.

    readme.py [ROOT]        default: the repository this script is in

Web addresses are not asked. Headings get the anchors that GitHub gives them.
"""

import pathlib
import posixpath
import re
import sys

sys.dont_write_bytecode = True

from source import Problem, Repository  # noqa: E402

LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
HEADED = re.compile(r"\b([\w/]+\.md)#([\w-]+)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```[ \t]*$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```.*?^```[ \t]*$", re.MULTILINE | re.DOTALL)
MOST_LINES = 160
EXAMPLE = re.compile(r"^```cpp *(\w*)$", re.MULTILINE)
# In a fenced block: the file given to `scenarios/run` or `shardlab run`, up to the first option.
COMMAND = re.compile(
    r"^[ \t$]*(?:build/)?(scenarios/run|shardlab run|shardlab test)((?:[ \t]+[\w./]+)+)",
    re.MULTILINE,
)


def _blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def anchors_of(text):
    seen, anchors = {}, set()
    for heading in HEADING.findall(FENCE.sub(_blank, text)):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        anchors.add(f"{slug}-{count}" if count else slug)
    return anchors


def check_scenarios(repository, file):
    for fence in FENCE.finditer(file.text):
        for match in COMMAND.finditer(fence[0]):
            folder = "scenarios/" if match[1] == "scenarios/run" else ""
            for name in match[2].split():
                if name.endswith(".json.gz"):  # a recording, which the user makes
                    continue
                # The program knows shipped scenarios by name, from any folder.
                paths = [repository.root / start / (name + end)
                         for start in (folder, "scenarios") for end in ("", ".toml")]
                if not any(path.exists() for path in paths):
                    line = file.line_of(fence.start() + match.start())
                    yield Problem(file.path, line, f"no scenario {name}")


def check_links(repository, file):
    for match in LINK.finditer(CODE.sub(_blank, file.text)):
        target, _, anchor = match[1].partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        line = file.line_of(match.start())
        path = posixpath.normpath(posixpath.join(posixpath.dirname(file.path), target))
        path = path if target else file.path
        if not (repository.root / path).exists():
            yield Problem(file.path, line, f"no file {target}")
            continue
        page = repository.files.get(path)
        if anchor and (page is None or anchor not in anchors_of(page.text)):
            yield Problem(file.path, line, f"no heading for {match[1]}")


def check_messages(repository):
    """A message of the program may send its reader to a heading, which has to be there (D-58)."""
    for file in repository.cpp():
        for match in HEADED.finditer(file.text):
            page = repository.files.get(match[1])
            if page is None or match[2] not in anchors_of(page.text):
                yield Problem(file.path, file.line_of(match.start()), f"no heading for {match[0]}")


def check_examples(repository, file):
    tests = [page for path, page in repository.files.items() if path.startswith("tests/install/")]
    for fence in EXAMPLE.finditer(file.text):
        uses = (f"<{fence[1]}.inc>", f'examples["{fence[1]}"]')
        if not any(use in page.text for page in tests for use in uses):
            yield Problem(file.path, file.line_of(fence.start()), "no test builds this C++ example")


def check_length(repository):
    """The first page for a new user is no reference book."""
    readme = repository.files.get("README.md")
    lines = 0 if readme is None else len(readme.text.splitlines())
    if lines > MOST_LINES:
        yield Problem("README.md", MOST_LINES + 1, f"{lines} lines of {MOST_LINES}")


def problems_of(repository):
    yield from check_length(repository)
    for file in repository.files.values():
        if file.path.endswith(".md"):
            yield from check_links(repository, file)
            yield from check_scenarios(repository, file)
            yield from check_examples(repository, file)
    yield from check_messages(repository)


def main():
    default = pathlib.Path(__file__).resolve().parents[2]
    repository = Repository(sys.argv[1] if len(sys.argv) > 1 else default)
    if "README.md" not in repository.files:
        print("README.md is missing")
        return 1
    problems = list(problems_of(repository))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
