#!/usr/bin/env python3
"""Compares the recorded facts with their checksum list.

    verify_facts.py [FOLDER] default: facts/ next to this script

Every file under FOLDER is listed in FOLDER/SHA256SUMS and the other way round, none is empty, and
every checksum is right. Anything else is a failure, never a skip: a fact that cannot be read would
otherwise count as one that agrees.
"""

import hashlib
import pathlib
import sys

LIST = "SHA256SUMS"


def read_list(path):
    """name -> checksum, as `sha256sum` writes them: "<hex>  <name>" a line."""
    listed = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        checksum, _, name = line.partition("  ")
        listed[name] = checksum
    return listed


def problems_of(folder):
    if not (folder / LIST).is_file():
        return [f"{folder / LIST}: missing"]
    listed = read_list(folder / LIST)
    present = {
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    } - {LIST}
    problems = [f"{folder / LIST}: lists no file"] if not listed else []
    problems += [f"{name}: missing" for name in sorted(listed.keys() - present)]
    problems += [f"{name}: not in {LIST}" for name in sorted(present - listed.keys())]
    for name in sorted(listed.keys() & present):
        content = (folder / name).read_bytes()
        if not content:
            problems.append(f"{name}: empty")
        elif hashlib.sha256(content).hexdigest() != listed[name]:
            problems.append(f"{name}: checksum differs")
    return problems


def main():
    default = pathlib.Path(__file__).resolve().parent / "facts"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    problems = problems_of(folder)
    for problem in problems:
        print(problem)
    if not problems:
        print(f"{len(read_list(folder / LIST))} files agree with {LIST}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
