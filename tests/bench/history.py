#!/usr/bin/env python3
"""Runs benchmarks, adds their medians to history.tsv, and names rows that got slower by over 10 %.

    history.py [OPTION...] BUILD [BENCH...]
    history.py [OPTION...] --read OUTPUT...

BENCH: dispatch_bench, mlp_bench, kernel_bench, verdict_bench, comm_bench (all of them by default),
built before. --read takes JSON that Google Benchmark wrote in place of running. Each row is
compared with the last one of its benchmark on the same kind of machine: processor and cores. Exit
code 1 if something got slower, 2 if there is nothing to record.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = ("machine", "revision", "benchmark", "median", "unit")
NANOSECONDS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
SLOWER = 0.10
REPEATED = ("--benchmark_repetitions=5", "--benchmark_min_time=0.1")
# Arguments of each. Kernels have their own budget of time and are measured once; a few are enough.
BENCHES = {
    "dispatch_bench": REPEATED,
    "mlp_bench": REPEATED,
    "kernel_bench": ("--seconds=1", "--benchmark_filter=^(add|exp|sum|softmax|layer_norm|mm)_"),
    "verdict_bench": (str(HERE.parent / "verdicts/cases"),),
    "comm_bench": (*REPEATED, "--benchmark_filter=ranks:8"),
}


def machine():
    """The kind of this machine: "AMD EPYC 7B13, 2 cores"."""
    told = pathlib.Path("/proc/cpuinfo")
    text = told.read_text(encoding="utf-8") if told.exists() else ""
    name = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name[1].strip() if name else os.uname().machine}, {cores} cores"


def revision():
    """The commit that is checked out, with + where the tree is another one."""
    def git(*words):
        command = ["git", "-C", HERE, *words]
        return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout

    changed = git("status", "--porcelain", "--untracked-files=no").strip()
    return git("rev-parse", "--short=8", "HEAD").strip() + ("+" if changed else "")


def medians_of_json(output):
    """[(benchmark, median, unit)] of Google Benchmark's output; a single run is its own median."""
    times, units = {}, {}
    for run in output["benchmarks"]:
        if run.get("run_type") == "aggregate" or run.get("error_occurred"):
            continue
        name = run.get("run_name", run["name"])
        # Several threads, or a clock of its own: the first thread's processor time says little.
        of_wall = re.search(r"/(manual|real)_time\b", name)
        times.setdefault(name, []).append(run["real_time" if of_wall else "cpu_time"])
        units[name] = run["time_unit"]
    return [(name, statistics.median(taken), units[name]) for name, taken in times.items()]


def medians_of_verdicts(text):
    """The same of the second table of verdict_bench: programs, schedulers, best/median/worst."""
    rows, settings = [], []
    for line in text.splitlines():
        cells = re.findall(r".{19}", line[66:])
        if line.startswith("on many ranks"):
            settings = [cell.strip() for cell in cells]
        for setting, cell in zip(settings, cells):
            if taken := re.fullmatch(r"\s*[\d.]+/([\d.]+)/[\d.]+", cell):
                rows.append((f"{line[:66].strip()}, {setting}", float(taken[1]), "us"))
    return rows


def run(build, bench):
    program = pathlib.Path(build, "tests/bench", bench)
    if bench == "verdict_bench":
        command = [program, *BENCHES[bench]]
        done = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=True)
        return medians_of_verdicts(done.stdout)
    with tempfile.NamedTemporaryFile(suffix=".json") as output:
        told = [f"--benchmark_out={output.name}", "--benchmark_out_format=json"]
        subprocess.run([program, *told, *BENCHES[bench]], stdout=subprocess.DEVNULL, check=True)
        text = output.read().decode()
        if not text:  # Google Benchmark refuses an argument with exit code 0, too
            sys.exit(f"{bench} wrote nothing with {' '.join(BENCHES[bench])}")
        return medians_of_json(json.loads(text))


def read_history(path):
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [dict(zip(COLUMNS, line.split("\t"))) for line in lines[1:]]


def nanoseconds(row):
    return float(row["median"]) * NANOSECONDS[row["unit"]]


def slower(history, rows):
    """Rows over 10 % slower than when they were last recorded on such a machine, as text."""
    last = {(row["machine"], row["benchmark"]): row for row in history}
    for row in rows:
        before = last.get((row["machine"], row["benchmark"]))
        if before is None:
            continue
        more = nanoseconds(row) / nanoseconds(before) - 1
        if more > SLOWER:
            yield (f"{row['benchmark']}: {before['median']} {before['unit']} at "
                   f"{before['revision']}, now {row['median']} {row['unit']}: {more:+.0%}")


def append(path, rows):
    lines = [] if path.exists() else ["\t".join(COLUMNS)]
    lines += ["\t".join(row[column] for column in COLUMNS) for row in rows]
    with open(path, "a", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def main(words):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry-run", action="store_true", help="write nothing")
    parser.add_argument("--filter", metavar="REGEX", default="", help="only these benchmarks")
    parser.add_argument("--history", type=pathlib.Path, default=HERE / "history.tsv")
    parser.add_argument("--read", action="store_true", help="files of Google Benchmark, as JSON")
    parser.add_argument("places", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    if given.read:
        measured = [medians_of_json(json.loads(pathlib.Path(place).read_text(encoding="utf-8")))
                    for place in given.places]
    else:
        build, *chosen = given.places
        measured = [run(build, bench) for bench in chosen or BENCHES]
    here = {"machine": machine(), "revision": revision()}
    rows = [here | {"benchmark": name, "median": f"{taken:.4g}", "unit": unit}
            for medians in measured for name, taken, unit in medians
            if re.search(given.filter, name) and taken > 0]
    found = list(slower(read_history(given.history), rows))
    if rows and not given.dry_run:
        append(given.history, rows)
    print(f"{len(rows)} medians on {here['machine']} at {here['revision']}")
    print("slower by more than 10 %:" if found else "nothing got slower by more than 10 %", *found,
          sep="\n")
    return 1 if found else 0 if rows else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
