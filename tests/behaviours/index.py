#!/usr/bin/env python3
"""Behaviours of tests/behaviour.md and the tests that name them.

    index.py [--quiet] [REPOSITORY]

Prints every id with how its text begins, the tests whose name carries it and the faults that they
have to catch (faults.toml), then the counts per section. Exit code 1 when a required id has no
test, or when a test names an id that does not exist. Required are all ids but X rows, which are
covered through the ids they change. An id that installs a guard or breaks a graph (section T) needs
a fault, too.
"""

import argparse
import collections
import pathlib
import re
import sys
import tomllib

REQUIRED = "MDROSTKBWV"
ID = re.compile(r"\b([MDROSTKXBWV])-(\d+)\b")
DEFINITION = re.compile(
    r"^(?:\* \*\*|\| (?:\d+ \| )?|\*\*)([MDROSTKXBWV]-\d+)\b(.*(?:\n  .*)*)", re.MULTILINE)
MARKS = re.compile(r"[*|]+")
GUARDS = re.compile(r"\bguard|\bbreak|\bT-6\b", re.IGNORECASE)
LONGEST = 90
TEST_CASE = re.compile(r'TEST_CASE(?:_TEMPLATE)?\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)')
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


def behaviours(repository):
    """{id: its text} in document order of sections, numbers ascending."""
    text = (repository / "tests" / "behaviour.md").read_text(encoding="utf-8")
    found = {}
    for identifier, words in DEFINITION.findall(text):
        found.setdefault(identifier, " ".join(MARKS.sub(" ", words).split()))
    return dict(sorted(found.items(), key=lambda row: (row[0][0], int(row[0][2:]))))


def shortened(text):
    return text if len(text) <= LONGEST else text[:LONGEST].rsplit(" ", 1)[0] + " ..."


def faults_by_id(repository):
    path = repository / "tests" / "behaviours" / "faults.toml"
    named = collections.defaultdict(list)
    for fault in tomllib.loads(path.read_text(encoding="utf-8"))["fault"]:
        named[fault["id"]].append(fault["name"])
    return named


def test_names(repository):
    """(file, name) of every doctest case."""
    for path in sorted((repository / "tests").rglob("*.cpp")):
        for match in TEST_CASE.finditer(path.read_text(encoding="utf-8")):
            name = "".join(STRING.findall(match.group(1)))
            yield path.relative_to(repository), name


def tests_by_id(repository):
    named = collections.defaultdict(list)
    for path, name in test_names(repository):
        for match in ID.finditer(name):
            named[match.group(0)].append((path, name))
    return named


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repository", nargs="?", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--quiet", action="store_true", help="only what is wrong, and the counts")
    options = parser.parse_args(arguments)
    ids, named = behaviours(options.repository), tests_by_id(options.repository)
    faults = faults_by_id(options.repository)
    counts = collections.defaultdict(lambda: [0, 0])
    missing, harmless = [], []
    for identifier, text in ids.items():
        tests = named.get(identifier, [])
        counts[identifier[0]][0] += bool(tests)
        counts[identifier[0]][1] += 1
        if not tests and identifier[0] in REQUIRED:
            missing.append(identifier)
        if identifier[0] == "T" and GUARDS.search(text) and not faults[identifier]:
            harmless.append(identifier)
        if not options.quiet:
            print(f"{identifier:6} {shortened(text)}")
            for path, name in tests or [("-", "no test")]:
                print(f"{'':6} {path}: {name}")
            for name in faults[identifier]:
                print(f"{'':6} fault: {name}")
    unknown = sorted(set(named) - set(ids))
    for section, (covered, total) in sorted(counts.items()):
        print(f"{section}: {covered} of {total} ids have a test")
    for what, found in (("without a test", missing), ("without a fault", harmless),
                        ("named by tests but not in behaviour.md", unknown)):
        if found:
            print(f"{what}: {' '.join(found)}")
    return 1 if missing or harmless or unknown else 0


if __name__ == "__main__":
    sys.exit(main())
