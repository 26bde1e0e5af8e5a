#!/usr/bin/env python3
"""Every known difference is proven: the test that it names is run, and passes.

    proofs_test.py UNIT_TESTS       the program of all unit tests

A row of known_differences.toml claims that the recorded answer is wrong; its `proof` is the name of
the test case that shows it.
"""

import pathlib
import re
import subprocess
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent


def problem_of(program, proof):
    """Why `proof` proves nothing; None when exactly one test case of that name ran and passed."""
    # A comma would end the name, and ? matches any one character.
    run = subprocess.run(
        [program, "--test-case=" + proof.replace(",", "?").replace("*", "?"), "--no-colors"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    counts = re.search(r"test cases:\s*(\d+) \|\s*(\d+) passed", run.stdout)
    if counts is None:
        return f"no result of the run: {(run.stdout + run.stderr)[-300:]}"
    if counts.group(1) != "1":
        return f"{counts.group(1)} test cases have this name"
    if run.returncode != 0 or counts.group(2) != "1":
        return "the test fails"
    return None


def main():
    rows = tomllib.loads((HERE / "known_differences.toml").read_text(encoding="utf-8"))
    causes = {}
    for row in rows["difference"]:
        causes.setdefault(row["proof"], []).append(row["cause"])
    problems = 0
    for proof, named_by in causes.items():
        problem = problem_of(sys.argv[1], proof)
        if problem is not None:
            problems += 1
            print(f"{', '.join(named_by)}: '{proof}': {problem}")
    print(f"{len(causes) - problems} of {len(causes)} proofs were run and hold")
    return 1 if problems or not causes else 0


if __name__ == "__main__":
    sys.exit(main())
