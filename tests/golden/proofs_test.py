#!/usr/bin/env python3
"""Every known difference names a test that exists.

    proofs_test.py

A row of known_differences.toml claims that the recorded answer is wrong; its `proof` is the name of
a test case, or the path of a scenario, that shows it.
"""

import pathlib
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def names_in(sources):
    return "\n".join(path.read_text(encoding="utf-8") for path in sources)


def main():
    rows = tomllib.loads((HERE / "known_differences.toml").read_text(encoding="utf-8"))
    tests = names_in((ROOT / "tests").rglob("*_test.cpp"))
    missing = [
        f"{row['cause']}: no test '{row['proof']}'"
        for row in rows["difference"]
        if f'("{row["proof"]}"' not in tests and not (ROOT / row["proof"]).is_file()
    ]
    for problem in missing:
        print(problem)
    return 1 if missing or not rows["difference"] else 0


if __name__ == "__main__":
    sys.exit(main())
