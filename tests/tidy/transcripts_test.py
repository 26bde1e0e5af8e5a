#!/usr/bin/env python3
"""Output that a page shows below a command is the output of the program.

    transcripts_test.py PROGRAM ROOT PAGE...

A transcript is a fenced block that begins with `$ shardlab ...`; the rest is all of its output, in
which a line `...` matches any lines. The commands of a block ```yaml or ```dockerfile must end with
0, after the transcripts of their page; ci/ has the stored figures that these make.
"""

import pathlib
import re
import sys
import tempfile

sys.dont_write_bytecode = True

from desk import Desk  # noqa: E402

TRANSCRIPT = re.compile(
    r"^```\n\$ (shardlab (?:[^\n]*\\\n)*[^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL
)

RECIPE = re.compile(r"^```(?:yaml|dockerfile)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?: *- run: |RUN )(shardlab .*)$", re.MULTILINE)


def difference(shown, printed):
    """None if PRINTED is what SHOWN says; else the first shown part that is not in its place."""
    at = 0
    parts = re.split(r"^ *\.\.\.\n", shown, flags=re.MULTILINE)
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        found = len(printed) - len(part) if last and number > 0 else printed.find(part, at)
        wrong = found < at or printed[found : found + len(part)] != part
        if wrong or (number == 0 and found != 0):
            return part
        at = found + len(part)
    return None if at == len(printed) else f"(no more is shown than)\n{shown}"


def main():
    program, root, *pages = sys.argv[1:]
    found = wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(folder, program, root)
        for page in pages:
            for line, shown in TRANSCRIPT.findall(pathlib.Path(page).read_text(encoding="utf-8")):
                found += 1
                done = desk.type(line)
                part = difference(shown, done.stdout)
                if part is not None:
                    wrong += 1
                    print(f"{page}: $ {line}\nshown:\n{part}")
                    print(f"printed:\n{done.stdout}{done.stderr}")
            for recipe in RECIPE.findall(pathlib.Path(page).read_text(encoding="utf-8")):
                for line in COMMAND.findall(recipe):
                    found += 1
                    desk.type("mkdir -p ci; shardlab test --json scenarios/models > ci/stored.json")
                    done = desk.type(line)
                    if done.returncode != 0:
                        wrong += 1
                        print(f"{page}: {line}\n{done.stdout}{done.stderr}")
    print(f"{found} transcripts, {wrong} wrong")
    return 1 if wrong or not found else 0


if __name__ == "__main__":
    sys.exit(main())
