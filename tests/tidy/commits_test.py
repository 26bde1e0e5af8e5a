#!/usr/bin/env python3
"""The subjects of commits have at most 72 characters; reasons are in the text below them.

    commits_test.py [ROOT]        default: the repository this script is in

Older commits than BASE are as they are. Without git, a repository or BASE in its history (a shallow
clone, an archive) the test is skipped (77).
"""

import pathlib
import shutil
import subprocess
import sys

BASE = "b34ce74aed9721d3e0d2092c5d8c53518c4e1e87"
MOST_CHARACTERS = 72
SKIPPED = 77  # as Meson reads exit codes


class NotHere(Exception):
    """Why the history cannot be looked at."""


def git(root, *arguments):
    command = ["git", "-c", "safe.directory=*", "-C", root, *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False)


def long_subjects(root, base):
    """The commits since `base` whose subject is too long, as "ID has N characters: SUBJECT"."""
    if not shutil.which("git"):
        raise NotHere("there is no git")
    if git(root, "merge-base", "--is-ancestor", base, "HEAD").returncode != 0:
        raise NotHere(f"{base} is not in this history (a shallow clone, or no repository)")
    told = git(root, "log", "--format=%h %s", f"{base}..HEAD").stdout
    for line in told.splitlines():
        commit, _, subject = line.partition(" ")
        if len(subject) > MOST_CHARACTERS:
            yield f"{commit} has {len(subject)} characters of {MOST_CHARACTERS}: {subject}"


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    try:
        found = list(long_subjects(root, BASE))
    except NotHere as reason:
        print(f"skipped: {reason}")
        return SKIPPED
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
