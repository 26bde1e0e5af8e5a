#!/usr/bin/env python3
"""The module for GPUs is installed where it has been built; else it is left out, with a message.

usage: install_module_test.py SCRIPT
"""

import os
import pathlib
import subprocess
import sys
import tempfile


def installed(script, module, prefix):
    """(exit code, output) of the script."""
    done = subprocess.run(
        [sys.executable, script, module, "lib/shardlab"],
        env=os.environ | {"MESON_INSTALL_DESTDIR_PREFIX": str(prefix)},
        capture_output=True, encoding="utf-8", check=False,
    )
    return done.returncode, done.stdout


def main():
    with tempfile.TemporaryDirectory() as folder:
        module = pathlib.Path(folder, "libshardlab_cuda.so")
        prefix = pathlib.Path(folder, "prefix")
        absent = installed(sys.argv[1], module, prefix)
        module.write_text("a module", encoding="utf-8")
        present = installed(sys.argv[1], module, prefix)
        copy = prefix / "lib/shardlab/libshardlab_cuda.so"
        right = absent == (0, "libshardlab_cuda.so has not been built, and is not installed\n")
        right = right and present[0] == 0 and copy.read_text(encoding="utf-8") == "a module"
    if not right:
        print(absent, present)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
