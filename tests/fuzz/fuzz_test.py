#!/usr/bin/env python3
"""No mutated text crashes or hangs a reader; Python parses every program that the language accepts.

    fuzz_test.py FUZZ ROOT [INPUTS]

Runs FUZZ (fuzz.cpp) over INPUTS texts, 36,000 when not given, and gives the programs that were
accepted to Python's parser.
"""

import ast
import pathlib
import subprocess
import sys
import tempfile
import warnings


def main():
    program, root, *inputs = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        accepted = pathlib.Path(folder) / "accepted"
        command = [program, root, "--inputs", *(inputs or ["36000"]), "--accepted", accepted]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
        programs = set(accepted.read_bytes().split(b"\0")[:-1])
    warnings.simplefilter("ignore")  # invalid escapes, calls of a number
    refused = 0
    for code in sorted(programs):
        try:
            ast.parse(code)
        except (SyntaxError, ValueError) as error:
            # Since 3.12, strings in the fields of an f-string may have its quotes.
            if sys.version_info < (3, 12) and str(error).startswith("f-string"):
                continue
            refused += 1
            if refused <= 5:
                print(f"accepted, but Python refuses it: {error}\n{code.decode(errors='replace')}")
    print(f"{len(programs)} accepted programs, {refused} refused by Python")
    return 1 if done.returncode != 0 or refused or len(programs) < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
