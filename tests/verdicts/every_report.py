#!/usr/bin/env python3
"""Every program through every kind of report: none ends in a defect of shardlab.

    every_report.py PROGRAM [--jobs N] FILE...

FILE: a scenario, or a folder of them. Each is run for people, in full with its page and its time
line, as JSON with values and memory, as the log of a rank, on shapes alone, and as a test. Exit
codes are 0, 1 and 2: a report that a program cannot have is refused. Exit code 1 when any is
another.
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

TIME_LIMIT_S = 120


def kinds(folder, name):
    page, line = f"{folder}/{name}.html", f"{folder}/{name}.json"
    return (["run"], ["run", "--full", "--html", page, "--perfetto", line],
            ["run", "--json", "--values", "3", "--memory-timeline"], ["run", "--rank", "1"],
            ["run", "--log", "--rank", "0"], ["run", "--why", "all"],
            ["run", "--backend", "fake"], ["test", "--strict", "--junit", f"{folder}/{name}.xml"])


def defects(program, path, folder, number):
    found = []
    for kind in kinds(folder, number):
        try:
            done = subprocess.run([program, *kind, str(path)], capture_output=True, check=False,
                                  encoding="utf-8", timeout=TIME_LIMIT_S,
                                  env={**os.environ, "NO_COLOR": "1"})
        except subprocess.TimeoutExpired:
            found.append(f"{path}: {' '.join(kind)}: takes over {TIME_LIMIT_S} s")
            continue
        if done.returncode not in (0, 1, 2):
            said = (done.stderr or done.stdout).strip().splitlines()
            found.append(f"{path}: {' '.join(kind)}: exit {done.returncode}: {said[-1:]}")
    return found


def main():
    parser = argparse.ArgumentParser(description="Runs programs through every kind of report.")
    parser.add_argument("program", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--every", type=int, default=1, help="one of so many programs")
    options = parser.parse_intermixed_args()
    paths = sorted(path for file in options.files
                   for path in ([file] if file.is_file() else file.rglob("*.toml")))
    paths = paths[:: options.every]
    with tempfile.TemporaryDirectory() as folder:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            runs = [pool.submit(defects, options.program, path, folder, number)
                    for number, path in enumerate(paths)]
            found = [defect for run in runs for defect in run.result()]
    print("\n".join(found))
    print(f"{len(paths)} programs, {len(kinds('', ''))} reports each, {len(found)} defects")
    return int(bool(found) or not paths)


if __name__ == "__main__":
    sys.exit(main())
