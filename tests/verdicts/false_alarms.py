#!/usr/bin/env python3
"""Right programs under many seeds: none may be called wrong.

    false_alarms.py PROGRAM [--jobs N] SEEDS FILE...

Runs each scenario under the seeds 0 to SEEDS - 1 and prints how many of them failed, and the first
of these. Exit code 1 when any did. With no alarm in N runs, the rate is below 3/N at 95 %.
"""

import argparse
import concurrent.futures
import os
import subprocess
import sys
import time


def alarm(program, file, seed):
    """The report of wrong values under this seed, or an empty string."""
    done = subprocess.run([program, "test", "--jobs", "1", "--seed", str(seed), file],
                          env={**os.environ, "NO_COLOR": "1"}, stdin=subprocess.DEVNULL,
                          capture_output=True, encoding="utf-8", check=False)
    if done.returncode == 0:
        return ""
    lines = (done.stdout + done.stderr).splitlines()
    wrong = [line.strip() for line in lines if line.startswith(("  wrong ", "error: "))]
    return wrong[0] if wrong else lines[-1]


def count(options, file):
    """(seeds that failed, the report of the first of them)"""
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        alarms = list(pool.map(lambda seed: alarm(options.program, file, seed),
                               range(options.seeds)))
    failed = [seed for seed, text in enumerate(alarms) if text]
    return failed, f"seed {failed[0]}: {alarms[failed[0]]}" if failed else ""


def main():
    parser = argparse.ArgumentParser(description="Right programs under many seeds.")
    parser.add_argument("program")
    parser.add_argument("seeds", type=int)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="seeds at a time")
    options = parser.parse_args()
    total = 0
    for file in options.files:
        begin = time.monotonic()
        failed, first = count(options, file)
        total += len(failed)
        print(f"{os.path.basename(file):<32} {options.seeds:>6} seeds {len(failed):>6} false alarms"
              f" {time.monotonic() - begin:>8.1f} s  {first}", flush=True)
    return total > 0


if __name__ == "__main__":
    sys.exit(main())
