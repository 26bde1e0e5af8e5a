#!/usr/bin/env python3
"""A file of every third room compiles by itself, as with -Dbatches=false.

    alone_test.py BUILD [--all]

In a batch a file may live on the includes of its neighbours. The rooms change with every commit,
and the file of a room when it was its turn; files that differ from the last commit, and those that
the latest commits changed, are compiled as well, up to twenty. `--all` compiles every file, which
takes a quarter of an hour.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOM = re.compile(r"(?:src|sim|backends)/\w+")
MOST_CHANGED = 20
WITHOUT = {"-MD"}
WITHOUT_PAIR = {"-o", "-MF", "-MQ", "-c"}


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, encoding="utf-8",
                          check=False)
    return done.stdout.split()


def command_of(entry, source):
    """The entry's command, which compiles a batch, for this file alone and without output."""
    words, kept = shlex.split(entry["command"]), []
    while words:
        word = words.pop(0)
        if word in WITHOUT_PAIR:
            words.pop(0)
        elif word not in WITHOUT:
            kept.append(word)
    return [word for word in kept if word != "ccache"] + ["-fsyntax-only", str(ROOT / source)]


def batched(build):
    """{file: the entry of the batch that it is in}"""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        path = build / entry["file"]
        if path.parent == build and path.suffix == ".cpp" and path.exists():
            for name in re.findall(r'#include "([^"]+)"', path.read_text(encoding="utf-8")):
                source = os.path.normpath(name)
                if ROOM.match(source):
                    found[source] = entry
    return found


def chosen(files):
    """One file of every third room, in turn, and the changed ones."""
    count = git("rev-list", "--count", "HEAD")
    turn, rooms = int(count[0]) if count else 0, {}
    for file in sorted(files):
        rooms.setdefault(ROOM.match(file)[0], []).append(file)
    changed = git("diff", "--name-only", "HEAD")
    changed += git("log", "-n", "20", "--name-only", "--format=")
    latest = [file for file in dict.fromkeys(changed) if file in files]
    rooms = list(rooms.values())[turn % 3 :: 3]
    return sorted({room[turn // 3 % len(room)] for room in rooms} | set(latest[:MOST_CHANGED]))


def main():
    build = pathlib.Path(sys.argv[1])
    files = batched(build)
    if not files:
        print("this build has no batches")
        return 0

    names = sorted(files) if "--all" in sys.argv else chosen(files)

    def compiled(file):
        command = command_of(files[file], file)
        return file, subprocess.run(command, cwd=build, capture_output=True, encoding="utf-8",
                                    check=False)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for file, done in pool.map(compiled, names):
            print(file, "compiles by itself" if done.returncode == 0 else "does not compile")
            if done.returncode:
                failed += 1
                print("".join(done.stderr.splitlines(keepends=True)[:10]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
