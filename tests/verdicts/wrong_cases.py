#!/usr/bin/env python3
"""Programs with a mistake, or with values that one device leaves open, and the sentence that names
it.

    wrong_cases.py PROGRAM [--write] [NAME...]

A case is a file wrong/NAME.toml or local/NAME.toml; NAME.txt next to it has the report that
`shardlab run --json` must give: the exit code, then the error or each wrong value with its line and
cause, values that are not verified, collectives that never completed, and warnings. In local/ are
programs on plain tensors: there it also has the reported contents of each value. --write records
the program's present report for the NAMEs given (at least one): read it before you commit it.
"""

import argparse
import difflib
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
FOLDERS = (HERE / "wrong", HERE / "local")
TIME_LIMIT_S = 60
# Values that one device does not have.
LOCAL = ("holds one rank's piece or term", "the single-device run does not get here")
LABEL = "each rank holds "


def line_of(place):
    found = re.search(r"\.toml:(\d+)", place)
    return f"line {found.group(1)}" if found else place


def told_values(said, labels_too):
    lines = []
    for value in said["values"]:
        if "backward_passes" in value:
            lines.append(f"{value['name']} adds up {value['backward_passes']} backward passes")
        open_because = value.get("not_verified", LOCAL[0])
        is_label = open_because in LOCAL or open_because.startswith(LABEL)
        if "not_verified" in value and (labels_too or not is_label):
            lines.append(f"open: {value['name']} ({line_of(value.get('at', ''))})")
            lines.append(f"    {open_because}")
        if labels_too and value.get("verdict", "wrong") != "wrong":
            lines.append(f"right: {value['name']} ({line_of(value.get('at', ''))})")
        if value.get("verdict") != "wrong":
            continue
        name = value["name"] + (" at the end" if value.get("at_end") else "")
        lines.append(f"wrong: {name} ({line_of(value.get('at', ''))})")
        if "cause" in value:
            cause_id = f" [{value['cause_id']}]" if labels_too else ""
            lines.append(f"    {value['cause']}{cause_id}")
    return lines


def folder_of(name):
    return next(folder for folder in FOLDERS if (folder / f"{name}.toml").exists())


def told(program, name):
    folder = folder_of(name)
    done = subprocess.run(
        [program, "run", "--json", f"{name}.toml"],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=TIME_LIMIT_S,
        check=False,
    )
    lines = [f"exit {done.returncode}"]
    if not done.stdout.startswith("{"):
        return "\n".join(lines + done.stderr.splitlines()) + "\n"
    said = json.loads(done.stdout)
    if "error" in said:
        lines += said["error"]["text"].splitlines()
    if "not_verified" in said:
        lines.append(f"not verified: {said['not_verified']}")
    for line in said["lines"]:
        lines += [f"never completed: {move['kind']} over {move['group']} (line {line['line']}), "
                  f"{move['sent_bytes']:g} B" for move in line["collectives"]
                  if not move.get("completed", True)]
    lines += told_values(said, folder.name == "local")
    lines += [f"warning: {text}" for text in said["warnings"]]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="Runs programs with a mistake.")
    parser.add_argument("program", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_intermixed_args()
    if options.write and not options.names:
        parser.error("--write needs the names of the cases to write")
    failed = 0
    all_names = sorted(path.stem for folder in FOLDERS for path in folder.glob("*.toml"))
    for name in options.names or all_names:
        expected = folder_of(name) / f"{name}.txt"
        got = told(options.program, name)
        if options.write:
            expected.write_text(got, encoding="utf-8")
            continue
        wanted = expected.read_text(encoding="utf-8") if expected.exists() else ""
        if got == wanted:
            print(f"ok      {name}")
            continue
        failed += 1
        print(f"FAILED  {name}")
        difference = difflib.unified_diff(
            wanted.splitlines(), got.splitlines(), "expected", "got", lineterm=""
        )
        print("\n".join(difference))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
