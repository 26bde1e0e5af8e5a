#!/usr/bin/env python3
"""Processor time of verified runs, of two builds in turns.

    verified_runs.py OLD NEW FILE...      (two shardlab programs, scenario files)

Each round runs every file with both programs in alternating order, with --set seed=ROUND. Printed
per file: the medians of user + system seconds of 7 rounds and of their quotients, round by round.
Both programs' time to start is included; it is measured with `--help` and printed first.
"""

import os
import resource
import statistics
import subprocess
import sys

ROUNDS = 7


def seconds(command):
    """User and system time of a process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def compare(name, old, new):
    times = {"old": [], "new": []}
    for number in range(ROUNDS):
        order = ("old", "new") if number % 2 == 0 else ("new", "old")
        for which in order:
            times[which].append(seconds((old if which == "old" else new)(number)))
    quotient = statistics.median(n / max(o, 1e-3) for o, n in zip(times["old"], times["new"]))
    old_median, new_median = (statistics.median(times[which]) for which in ("old", "new"))
    print(f"{name:50} {old_median:8.3f} s {new_median:8.3f} s {quotient:6.2f}")


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    old, new, *files = sys.argv[1:]
    print(f"{'':50} {'old':>10} {'new':>10} {'new/old':>6}")
    compare("start", lambda _: [old, "--help"], lambda _: [new, "--help"])
    for file in files:
        def command(program):
            return lambda number: [program, "run", file, "--set", f"seed={number}"]
        compare(os.path.basename(file), command(old), command(new))


if __name__ == "__main__":
    main()
