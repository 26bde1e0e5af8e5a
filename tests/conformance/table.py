#!/usr/bin/env python3
"""The conformance suite as a table: backend, how its ranks run, cases run, passed, skipped and why.

    table.py BUILD

Runs every test of the suite in the build folder BUILD, which is built. The tests print each case
that is skipped in a job of one size, with its reason: `skipped: CASE: REASON`. Exit code 1 if a
case failed.
"""

import collections
import json
import os
import re
import subprocess
import sys

SKIPPED = re.compile(r"skipped: (.*): ([^:\n]*)")
COUNTS = re.compile(r"test cases: +(\d+) \| +(\d+) passed \| +(\d+) failed")
BACKENDS = ("threads", "mpi", "nccl")


def conformance_tests(build):
    listed = subprocess.run(
        ["meson", "introspect", "--tests", build], capture_output=True, text=True, check=True
    )
    for test in json.loads(listed.stdout):
        if any(suite.split(":")[-1] == "conformance" for suite in test["suite"]):
            yield test


def run(build, test):
    """(cases run, passed, reasons by case, why it failed or None)"""
    done = subprocess.run(
        test["cmd"] + ["--no-colors"], cwd=build, env=os.environ | test["env"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=600,
    )
    text = done.stdout + done.stderr
    # One line a process: they agree, or the worst counts.
    counts = [tuple(map(int, found)) for found in COUNTS.findall(text)]
    skipped = collections.defaultdict(set)
    for case, reason in SKIPPED.findall(text):
        skipped[case].add(reason)
    cases = max((total for total, _, _ in counts), default=0)
    failed = max((failures for _, _, failures in counts), default=0)
    passed = cases - failed - len(skipped)
    wrong = None if done.returncode == 0 and cases and not failed else text[-2000:]
    return cases, passed, skipped, wrong


def main():
    build = sys.argv[1]
    print(f"{'backend':34} {'cases':10} {'run':>4} {'passed':>7} {'skipped':>8}")
    failures, seen = [], set()
    for test in conformance_tests(build):
        setting = test["env"].get("SHARDLAB_STAGE", "")
        seen.add(setting.split("/")[0])
        name = re.sub(r"^backend ", "", test["name"])
        where, _, only = name.partition(", cases ")
        cases, passed, skipped, wrong = run(build, test)
        row = f"{where:34} {only or '*':10} {cases:4} {passed:7} {len(skipped):8}"
        reasons = collections.Counter(reason for of_case in skipped.values() for reason in of_case)
        why = "; ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        print(row + (f"  {why}" if why else "") + ("  FAILED" if wrong else ""), flush=True)
        if wrong:
            failures.append(f"{test['name']}:\n{wrong}")
    for backend in BACKENDS:
        if backend not in seen:
            print(f"{backend:34} not built here")
    print(*failures, sep="\n")
    return 1 if failures or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
