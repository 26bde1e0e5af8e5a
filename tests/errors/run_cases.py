#!/usr/bin/env python3
"""Bad input, one tiny case per message.

    run_cases.py PROGRAM [--cases FOLDER] [--more ARGUMENTS] [--write] [NAME...]

A case is a file cases/NAME.txt. Its first line is the exit code that must result, the rest is the
exact text that must be on stderr:

    exit 2
    error: unknown key 'mehs'
      ...

The command is `shardlab run NAME.toml`, run in the folder of the cases, so that messages name the
file as `NAME.toml`. A case that needs another command gives it on the first line, without the
program: `exit 2: show "f32[3" --mesh x=2`. NAMEs choose cases; without any, all run, each a line of
output. No case at all, a NAME.toml without its NAME.txt, and a case that takes over 20 s are
failures. --more adds arguments to every command: `--more "--scheduler threads"`.

--write records the program's present output as the expected text of the NAMEs given (at least one).
Read it before you commit it: place, values and fix have to be there and right.
"""

import argparse
import difflib
import os
import pathlib
import shlex
import subprocess
import sys

TIME_LIMIT_S = 20


class Case:
    def __init__(self, path, more):
        self.more = more
        self.name = path.stem
        self.path = path
        header, _, self.expected = (
            path.read_text(encoding="utf-8").partition("\n") if path.exists() else ("", "", "")
        )
        code, _, arguments = header.partition(":")
        self.arguments = arguments.strip()
        words = code.split()
        well_formed = len(words) == 2 and words[0] == "exit" and words[1].isdigit()
        self.exit_code = int(words[1]) if well_formed else None

    def command(self, program):
        command = shlex.split(self.arguments) or ["run", f"{self.name}.toml"]
        return [program] + command + self.more

    def run(self, program):
        """(exit code, stderr); paths of the folder are cut down to file names."""
        folder = self.path.parent
        done = subprocess.run(
            self.command(program),
            cwd=folder,
            env={**os.environ, "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=TIME_LIMIT_S,
            check=False,
        )
        return done.returncode, done.stderr.replace(f"{folder}/", "")

    def problem(self, program):
        """The fault found, or an empty string."""
        if self.exit_code is None:
            return f"{self.path.name} does not begin with a line `exit N`\n"
        try:
            exit_code, text = self.run(program)
        except subprocess.TimeoutExpired:
            return f"takes over {TIME_LIMIT_S} s\n"
        lines = []
        if exit_code != self.exit_code:
            lines.append(f"exit code {exit_code}, expected {self.exit_code}\n")
        lines += difflib.unified_diff(
            self.expected.splitlines(True), text.splitlines(True), "expected", "got"
        )
        return "".join(line if line.endswith("\n") else line + "\n" for line in lines)

    def write(self, program):
        exit_code, text = self.run(program)
        header = f"exit {exit_code}" + (f": {self.arguments}" if self.arguments else "")
        self.path.write_text(f"{header}\n{text}", encoding="utf-8")


def cases_of(folder, more, names):
    found = {path.stem for path in folder.glob("*.txt")} | {p.stem for p in folder.glob("*.toml")}
    return [Case(folder / f"{name}.txt", more) for name in (names or sorted(found))]


def main():
    parser = argparse.ArgumentParser(description="Runs the cases of bad input.")
    parser.add_argument("program", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("names", nargs="*", metavar="NAME")
    default = pathlib.Path(__file__).resolve().parent / "cases"
    parser.add_argument("--cases", type=lambda text: pathlib.Path(text).resolve(), default=default)
    parser.add_argument("--more", type=shlex.split, default=[], metavar="ARGUMENTS")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--leave-out", action="append", default=[], metavar="NAME")
    options = parser.parse_intermixed_args()

    if options.write and not options.names:
        parser.error("--write needs the names of the cases to write")
    cases = cases_of(options.cases, options.more, options.names)
    for name in options.leave_out:
        print(f"left out {name}: it is about a part that this build does not have")
    cases = [case for case in cases if case.name not in options.leave_out]
    if options.write:
        for case in cases:
            case.write(options.program)
        return 0
    failed = 0
    for case in cases:
        problem = case.problem(options.program)
        print(f"{'failed' if problem else 'ok    '} {case.name}\n{problem}", end="")
        failed += bool(problem)
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
