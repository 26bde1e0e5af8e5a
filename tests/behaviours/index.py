#!/usr/bin/env python3
"""Which test names which behaviour of tests/behaviour.md.

    index.py [--quiet] [REPOSITORY]

Prints every id with the tests whose name carries it, then the counts per section. Exit code 1 when
a required id has no test, or when a test names an id that does not exist. Required are all ids of
sections M, D, R, O, S, K, B, W and V; T waits for the capture layer, X rows are covered through the
ids they change.
"""

import argparse
import collections
import pathlib
import re
import sys

REQUIRED = "MDROSKBWV"
ID = re.compile(r"\b([MDROSTKXBWV])-(\d+)\b")
DEFINITION = re.compile(r"^(?:\* \*\*|\| (?:\d+ \| )?|\*\*)([MDROSTKXBWV]-\d+)\b", re.MULTILINE)
TEST_CASE = re.compile(r'TEST_CASE(?:_TEMPLATE)?\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)')
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


def behaviours(repository):
    """All ids in document order of sections, numbers ascending."""
    text = (repository / "tests" / "behaviour.md").read_text(encoding="utf-8")
    found = set(DEFINITION.findall(text))
    return sorted(found, key=lambda i: (i[0], int(i[2:])))


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
    counts = collections.defaultdict(lambda: [0, 0])
    missing = []
    for identifier in ids:
        tests = named.get(identifier, [])
        counts[identifier[0]][0] += bool(tests)
        counts[identifier[0]][1] += 1
        if not tests and identifier[0] in REQUIRED:
            missing.append(identifier)
        if not options.quiet:
            print(f"{identifier:6} {tests[0][0]}: {tests[0][1]}" if tests else f"{identifier:6} -")
            for path, name in tests[1:]:
                print(f"{'':6} {path}: {name}")
    unknown = sorted(set(named) - set(ids))
    for section, (covered, total) in sorted(counts.items()):
        print(f"{section}: {covered} of {total} ids have a test")
    if missing:
        print(f"without a test: {' '.join(missing)}")
    if unknown:
        print(f"named by tests but not in behaviour.md: {' '.join(unknown)}")
    return 1 if missing or unknown else 0


if __name__ == "__main__":
    sys.exit(main())
