#!/usr/bin/env python3
"""Plants the faults of faults.toml, one at a time, and asks the tests that name its id.

    faults.py PROGRAM [NAME...]

PROGRAM holds the unit tests over a library that asks planted(name) at the places where a fault can
be switched on. A fault is caught when a test that names its id fails, and the same tests pass
without it. Exit code 1 when one is not.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tomllib

SECONDS = 120  # a fault may leave ranks waiting for each other


def run(program, identifiers, fault):
    """(passed, what happened) of the tests that name these ids."""
    pattern = ",".join(f"*{identifier} *" for identifier in identifiers)
    environment = {**os.environ, "SHARDLAB_FAULT": fault}
    try:
        done = subprocess.run([program, f"--test-case={pattern}", "--no-colors=1"],
                              env=environment, capture_output=True, text=True, timeout=SECONDS,
                              check=False)
    except subprocess.TimeoutExpired:
        return False, "the tests do not end"
    if " 0 passed" in done.stdout and " 0 failed" in done.stdout.split("assertions")[0]:
        return True, "no test names it"
    if done.returncode == 0:
        return True, "the tests pass"
    names = [line.removeprefix("TEST CASE:").strip() for line in done.stdout.splitlines()
             if line.startswith("TEST CASE:")]
    return False, names[0] if names else f"the tests end with code {done.returncode}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    path = pathlib.Path(__file__).with_name("faults.toml")
    faults = tomllib.loads(path.read_text(encoding="utf-8"))["fault"]
    chosen = [fault for fault in faults if not options.names or fault["name"] in options.names]
    missed = 0
    passed, how = run(options.program, sorted({fault["id"] for fault in chosen}), "")
    if not passed:
        print(f"without a fault: {how}")
        missed += 1
    for fault in chosen:
        passed, how = run(options.program, [fault["id"]], fault["name"])
        missed += passed
        verdict = "missed" if passed else "caught"
        print(f"{verdict}  {fault['id']:5} {fault['name']}: {how}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} faults caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
