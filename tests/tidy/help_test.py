#!/usr/bin/env python3
"""Every command of the program explains itself.

    help_test.py PROGRAM ROOT

`shardlab COMMAND --help` exits with 0 and shows at least two examples: lines that name `shardlab
COMMAND` below a line `examples:`. They can be typed as they are in the repository ROOT, those of
the overview, too. A command that is still to come says "not yet supported" and exits with 2.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

from desk import Desk  # noqa: E402

SUPPORTED = ("run", "test", "shrink", "blame", "advise", "trace", "replay", "record", "show",
             "reshard", "plan", "explain", "ops", "verify-ops", "diff", "doctor", "completion")

# Files that the examples of `diff` read, and the commands that make them.
MLP = "shardlab run --json --values all scenarios/models/megatron_mlp.toml"
RUNS = {
    "threads.json": MLP,
    "mpi.json": f"{MLP} --backend fake",
    "tp2.json": f"{MLP} --set mesh.tp=2",
    "tp4.json": MLP,
    "stored.json": MLP,
    "new.json": MLP,
}


def ask(*command):
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False
    )


def examples_of(text, *words):
    lines = text.splitlines()
    words_of_heading = ("examples:", "examples")
    starts = [i for i, line in enumerate(lines) if line.strip().lower() in words_of_heading]
    below = lines[starts[0] :] if starts else []
    named = " ".join(("shardlab", *words)) + " "
    return [line.strip() for line in below if line.startswith("  ") and named in line]


def problem_of(program, command):
    done = ask(program, command, "--help")
    if done.returncode != 0:
        return f"exit code {done.returncode}: {done.stderr.strip()}"
    examples = examples_of(done.stdout, command)
    if len(examples) < 2:
        return f"{len(examples)} examples, at least 2 are due"
    return None


def failed_examples(program, root):
    shown = ask(program, "--help").stdout
    lines = examples_of(shown)
    for command in SUPPORTED:
        lines += examples_of(ask(program, command, "--help").stdout, command)
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(folder, program, root)
        for name, line in RUNS.items():
            desk.type(f"{line} > {name}")
        for line in lines:
            if line.endswith(" train.py"):  # it needs PyTorch
                continue
            done = desk.type(line)
            # `diff` and `--check` exit with 1 if two differ, `blame` if something is wrong.
            found = any(word in line for word in (" diff ", " blame ", " --check before"))
            if done.returncode == 0 or (found and done.returncode == 1):
                continue
            yield f"exit code {done.returncode} of {line}\n{done.stderr}"
    if len(lines) < 2 * len(SUPPORTED):
        yield f"only {len(lines)} examples were found"


def main():
    program, root = sys.argv[1:]
    failed = 0
    for command in SUPPORTED:
        problem = problem_of(program, command)
        print(f"shardlab {command} --help: {problem or 'ok'}")
        failed += problem is not None
    news = pathlib.Path(root, "NEWS.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)", news, re.MULTILINE)[1]
    said = ask(program, "--version")
    if (said.returncode, said.stdout) != (0, f"shardlab {newest}\n"):
        print(f"shardlab --version says {said.stdout!r}, the newest of NEWS.md is {newest}")
        failed += 1
    overview = ask(program, "--help")
    for command in SUPPORTED:
        if command not in overview.stdout.split():
            print(f"shardlab --help does not name {command}")
            failed += 1
    for problem in failed_examples(program, root):
        print(problem)
        failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
