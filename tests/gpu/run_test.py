#!/usr/bin/env python3
"""tests/gpu/run on a machine without GPUs: exit code 77, and no record."""

import os
import pathlib
import subprocess
import sys
import tempfile


def main():
    run = pathlib.Path(sys.argv[1])
    record = run.parent / "last_run.md"
    before = record.read_text(encoding="utf-8") if record.exists() else None
    with tempfile.TemporaryDirectory() as empty:
        # No nvidia-smi, even if this machine has one.
        for tool in ("bash", "dirname", "grep"):
            found = next(
                pathlib.Path(folder, tool)
                for folder in os.environ["PATH"].split(":")
                if pathlib.Path(folder, tool).exists()
            )
            pathlib.Path(empty, tool).symlink_to(found)
        done = subprocess.run(
            [run], env={"PATH": empty}, capture_output=True, encoding="utf-8", timeout=60
        )
    after = record.read_text(encoding="utf-8") if record.exists() else None
    expected = "no GPU here: nothing was run, no figure is claimed\n"
    if (done.returncode, done.stderr, after) == (77, expected, before):
        return 0
    print(done)
    return 1


if __name__ == "__main__":
    sys.exit(main())
