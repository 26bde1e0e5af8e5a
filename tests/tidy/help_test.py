#!/usr/bin/env python3
"""Every command of the program explains itself.

    help_test.py PROGRAM

`shardlab COMMAND --help` exits with 0 and shows at least two examples: lines that begin with
`shardlab COMMAND` below a line `examples:`. A command that is still to come says "not yet
supported" and exits with 2.
"""

import subprocess
import sys

SUPPORTED = ("run", "test", "show", "plan", "explain", "ops", "check", "diff", "doctor")
TO_COME = ("verify-ops",)


def ask(*command):
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False
    )


def examples_of(text, command):
    lines = [line.strip().lower() for line in text.splitlines()]
    starts = [number for number, line in enumerate(lines) if line in ("examples:", "examples")]
    below = lines[starts[0] :] if starts else []
    return [line for line in below if line.startswith(f"shardlab {command} ")]


def problem_of(program, command):
    done = ask(program, command, "--help")
    if command in TO_COME and done.returncode == 2 and "not yet supported" in done.stderr:
        return None
    if done.returncode != 0:
        return f"exit code {done.returncode}: {done.stderr.strip()}"
    examples = examples_of(done.stdout, command)
    if len(examples) < 2:
        return f"{len(examples)} examples, at least 2 are due"
    return None


def main():
    program = sys.argv[1]
    failed = 0
    for command in SUPPORTED + TO_COME:
        problem = problem_of(program, command)
        print(f"shardlab {command} --help: {problem or 'ok'}")
        failed += problem is not None
    overview = ask(program, "--help")
    for command in SUPPORTED:
        if command not in overview.stdout.split():
            print(f"shardlab --help does not name {command}")
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
