#!/usr/bin/env python3
"""The formatter would change no C++ file.

    format_test.py TOOLS [--write]

TOOLS is the folder in which tests/run puts clang-format by pip, in the version of formatter.txt;
one of that version in PATH does as well. Without either the test is skipped (77). --write formats
in place.
"""

import multiprocessing.pool
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True

from source import Repository  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
REQUIREMENT = (HERE / "formatter.txt").read_text(encoding="utf-8").strip()
VERSION = REQUIREMENT.partition("==")[2]
SKIPPED = 77  # as Meson reads exit codes
CPP = re.compile(r"\.(h|cpp|cuh?)$")
AT_ONCE = 100  # files in one call


def formatter(tools):
    """The path of clang-format of this version, or None."""
    names = (f"clang-format-{VERSION.partition('.')[0]}", "clang-format")
    for path in (tools / "clang_format/data/bin/clang-format", *map(shutil.which, names)):
        if path and pathlib.Path(path).exists():
            said = subprocess.run([path, "--version"], capture_output=True, encoding="utf-8").stdout
            if re.search(rf"\b{re.escape(VERSION)}\b", said):
                return path
    return None


def why_missing(tools):
    log = tools / "log.txt"
    said = log.read_text(encoding="utf-8").split("\n") if log.exists() else []
    return next((line for line in reversed(said) if line), f"tests/run puts it into {tools} by pip")


def changed(program, files):
    """The places at which the formatter would change these files, as FILE:LINE."""

    def told(first):
        command = [program, "--dry-run", *files[first : first + AT_ONCE]]
        return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stderr

    with multiprocessing.pool.ThreadPool(os.cpu_count()) as pool:
        texts = "".join(pool.map(told, range(0, len(files), AT_ONCE)))
    warnings = re.findall(r"^(.*?):(\d+):\d+: warning: code should be", texts, re.MULTILINE)
    first_lines = dict(reversed(warnings))
    return [f"{file}:{line}" for file, line in sorted(first_lines.items())]


def main():
    tools = pathlib.Path(sys.argv[1])
    program = formatter(tools)
    if program is None:
        print(f"skipped: there is no {REQUIREMENT}: {why_missing(tools)}")
        return SKIPPED
    repository = Repository(HERE.parents[1])
    files = [repository.root / name for name in repository.files if CPP.search(name)]
    if "--write" in sys.argv[2:]:
        subprocess.run([program, "-i", *files], check=True)
    places = changed(program, files)
    for place in places:
        print(f"{place}: {REQUIREMENT} writes this in another way")
    print(f"{len(files)} files, {len(places)} to be changed")
    if places:
        print(f"to format them: python3 tests/tidy/format_test.py {tools} --write")
    return 1 if places or not files else 0


if __name__ == "__main__":
    sys.exit(main())
