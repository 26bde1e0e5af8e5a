#!/usr/bin/env python3
"""The project's own lint; a test like any other.

    tidy.py [ROOT]        default: the repository this script is in

Checks the include law, dead files, banned words and calls, line and function length, the share
of errors with a fix, ops in two arguments of one call, how comments open, and sizes that only fall
(see the modules next to this one), then prints lines per folder. Exit code 1 if there is a
violation.
"""

import collections
import pathlib
import statistics
import sys

sys.dont_write_bytecode = True

import comments  # noqa: E402
import fixes  # noqa: E402
import functions  # noqa: E402
import includes  # noqa: E402
import order  # noqa: E402
import patterns  # noqa: E402
import walls  # noqa: E402
from source import Repository  # noqa: E402


def problems_of(repository):
    checks = includes.CHECKS + patterns.CHECKS + functions.CHECKS + fixes.CHECKS
    checks += order.CHECKS + comments.CHECKS + walls.CHECKS
    return [problem for check in checks for problem in check(repository)]


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0


def sizes(repository):
    """Lines per folder, and the marks of the style: files by median, functions by p90."""
    lines = collections.defaultdict(list)
    for file in repository.cpp():
        folder = "/".join(file.path.split("/")[:2])
        lines[folder].append(file.text.count("\n"))
    lengths = [function.lines for function in functions.all_functions(repository)]
    for folder in sorted(lines):
        yield f"{folder:24} {len(lines[folder]):4} files {sum(lines[folder]):6} lines"
    counts = [count for folder in lines.values() for count in folder]
    if counts:
        yield (
            f"{'all':24} {len(counts):4} files {sum(counts):6} lines; a file has "
            f"{statistics.median(counts):.0f} in the median, {percentile(counts, 0.9)} at p90"
        )
        yield f"{len(lengths)} functions, {percentile(lengths, 0.9)} lines at p90"


def main():
    default = pathlib.Path(__file__).resolve().parents[2]
    repository = Repository(sys.argv[1] if len(sys.argv) > 1 else default)
    problems = problems_of(repository)
    for problem in problems:
        print(problem)
    if problems:
        print()
    print("\n".join(sizes(repository)))
    print(fixes.summary(repository))
    if not repository.cpp():
        print("no C++ file found")
    return 1 if problems or not repository.cpp() else 0


if __name__ == "__main__":
    sys.exit(main())
