#!/usr/bin/env python3
"""Functions without a caller in the product: uncalled.py [ROOT].

Found by names alone: a function is uncalled when src, sim and backends have its name only where it
is declared and defined. One that shares its name with a function that is called is missed. Those
of the headers that users include are left out: they are for users.
"""

import collections
import pathlib
import re
import sys

sys.dont_write_bytecode = True

import functions  # noqa: E402
from source import Problem, Repository  # noqa: E402

PRODUCT = ("src", "sim", "backends")
PUBLIC = "sim/install/shardlab/"
LIST = "tests/tidy/uncalled.txt"
WORD = re.compile(r"[A-Za-z_]\w*")


def public_headers(repository):
    """Headers of the installation, and those that they include."""
    public = [file for file in repository.cpp("sim") if file.path.startswith(PUBLIC)]
    for file in public:
        for line, text in enumerate(file.text.splitlines(), 1):
            exported = "IWYU pragma: export" in text
            names = [name for at, mark, name in file.includes if at == line and mark == '"']
            found = [repository.resolve(file, name) for name in names if exported]
            public += [repository.files[path] for path in found
                       if path and repository.files[path] not in public]
    return public


def uncalled_functions(repository):
    """{name: path of a file that declares it}"""
    files = repository.cpp(*PRODUCT)
    public = {file.path for file in public_headers(repository)}
    known = collections.Counter()  # declarations and definitions
    homes, of_users = {}, set()
    for file in sorted(files, key=lambda file: not file.path.endswith(".h")):
        names = [function.name for function in functions.functions_of(file)]
        names += functions.declared_in(file)
        for name in (full.rsplit("::", 1)[-1] for full in names):
            known[name] += 1
            if file.path in public:
                of_users.add(name)
            elif WORD.fullmatch(name) and name != "lambda":
                homes.setdefault(name, file.path)
    said = collections.Counter(word for file in files for word in WORD.findall(file.code))
    return {name: path for name, path in homes.items()
            if said[name] <= known[name] and name not in of_users}


def listed_functions(repository):
    """Lines `name: reason`."""
    file = repository.files.get(LIST)
    lines = file.text.splitlines() if file else []
    return {line.split(":")[0] for line in lines if line and not line.startswith("#")}


def problems_of(repository):
    listed, found = listed_functions(repository), uncalled_functions(repository)
    for name, path in found.items():
        if name not in listed:
            yield Problem(path, 0, f"nobody in the product calls {name}()")
    for name in sorted(listed - set(found)):
        yield Problem(LIST, 0, f"'{name}' is called, or gone: take it off the list")


def main():
    default = pathlib.Path(__file__).resolve().parents[2]
    repository = Repository(sys.argv[1] if len(sys.argv) > 1 else default)
    problems = list(problems_of(repository))
    for problem in problems:
        print(f"{problem}: delete it, call it, or give the reason in {LIST}")
    return 1 if problems or not repository.cpp() else 0


if __name__ == "__main__":
    sys.exit(main())
