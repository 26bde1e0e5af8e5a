#!/usr/bin/env python3
"""Right programs whose values leave the distributed world and come back: none may be called wrong.

    local_rewrites.py PROGRAM [--count N] [--seed N] FILE...

FILE: a scenario, a recorded program (*.json.gz), which is written as a scenario on a mesh first,
or a folder. A file and one to three of the distributed values that its program names are drawn.
After each a line is added that takes the pieces and labels them as they were: `x =
from_local(x.to_local(), .)`. The program has the same meaning then, except for gradients of a
former leaf, which such a program may ask for in vain: those that fail are counted as refused. No
value and no call may be wrong. Exit code 1 when any is.
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

TIME_LIMIT_S = 60


def said(program, path):
    done = subprocess.run([program, "run", "--json", path.name], cwd=path.parent,
                          capture_output=True, encoding="utf-8", timeout=TIME_LIMIT_S, check=False,
                          env={**os.environ, "NO_COLOR": "1"})
    lines = done.stdout.splitlines()
    return json.loads(lines[0]) if lines and lines[0].startswith("{") else None


def places(run, text):
    """(line, name) of top-level assignments of one name that is distributed and has no terms."""
    lines = text.splitlines()
    found = []
    for value in run["values"]:
        at = re.search(r":(\d+):(\d+)$", value.get("at", ""))
        if not at or value.get("at_end") or "@" not in value["type"] or "{" in value["type"]:
            continue
        number, name = int(at.group(1)), value["name"]
        if number >= len(lines) or not re.fullmatch(r"\w+", name):
            continue
        line, behind = lines[number - 1], lines[number]
        closed = line.count("(") == line.count(")") and line.count("[") == line.count("]")
        indent = " " * (int(at.group(2)) - 1)
        goes_on = behind.startswith(indent + " ")
        in_place = re.match(rf" *{name} = [\w.]*_[.(]", line)  # the old name has other memory then
        if line.startswith(f"{indent}{name} = ") and closed and not goes_on and not in_place:
            found.append((number, name))
    return found


def rewritten(text, chosen):
    lines = text.splitlines()
    for number, name in sorted(chosen, reverse=True):
        line = lines[number - 1]
        indent = line[: len(line) - len(line.lstrip())]
        lines.insert(number, f"{indent}{name} = from_local({name}.to_local(), "
                             f"placements={name}.placements, shape={name}.shape)")
    return "\n".join(lines) + "\n"


def scenario_of(program, path, folder):
    """The file itself, or the scenario of a recorded program; None if no scenario can express
    it."""
    if path.suffix == ".toml":
        return path
    shutil.copy(path, folder)  # the scenario takes its tensors from the file beside it
    done = subprocess.run([program, "run", "--toml", "--mesh", "dp=2,tp=2", "--plan", "megatron",
                           path], capture_output=True, encoding="utf-8", timeout=TIME_LIMIT_S,
                          check=False)
    written = pathlib.Path(folder) / f"{path.name.removesuffix('.json.gz')}.toml"
    written.write_text(done.stdout, encoding="utf-8")
    return written if done.returncode == 0 and done.stdout else None


def wrong_in(run):
    wrong = [f"{value['name']}: {value.get('what')}" for value in run["values"]
             if value.get("verdict") == "wrong"]
    calls = run.get("calls", {}).get("first_wrong")
    return wrong + ([f"call {calls['op']}: {calls['what']}"] if calls else [])


def main():
    parser = argparse.ArgumentParser(description="Right programs through local tensors and back.")
    parser.add_argument("program", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_intermixed_args()
    rng = random.Random(options.seed)
    paths = sorted(path for file in options.files
                   for path in ([file] if file.is_file()
                                else [*file.rglob("*.toml"), *file.rglob("*.json.gz")])
                   if path.parent.name != "zoo")
    known, ran, refused, alarms = {}, 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.count):
            path = rng.choice(paths)
            if path not in known:
                scenario = scenario_of(options.program, path, folder)
                run = said(options.program, scenario) if scenario else None
                text = scenario.read_text(encoding="utf-8") if scenario else ""
                # A name that is assigned again has a first value which [reference] does not cover.
                right = run is not None and run["ok"] and "[reference]" not in text
                known[path] = (text, places(run, text) if right else [])
            text, found = known[path]
            if not found:
                continue
            chosen = rng.sample(found, min(len(found), rng.randint(1, 3)))
            target = pathlib.Path(folder) / f"{path.name.split('.')[0]}_{number}.toml"
            target.write_text(rewritten(text, chosen), encoding="utf-8")
            run = said(options.program, target)
            if run is None or "error" in run:
                refused += 1
                continue
            ran += 1
            if wrong := wrong_in(run):
                alarms += 1
                print(f"FALSE ALARM {path}: {chosen}: {wrong[0]}")
    print(f"{ran} rewritten programs ran, {refused} were refused, {alarms} false alarms")
    return int(alarms > 0 or ran == 0)


if __name__ == "__main__":
    sys.exit(main())
