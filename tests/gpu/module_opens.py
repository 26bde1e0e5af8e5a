#!/usr/bin/env python3
"""The module of device cuda has its table, and links no libcuda.

    module_opens.py MODULE

Without the libraries that it needs the first part is skipped, with a message.
"""

import ctypes
import pathlib
import subprocess
import sys


def main():
    # A name without a folder would be searched elsewhere.
    module = str(pathlib.Path(sys.argv[1]).resolve())
    needed = subprocess.run(
        ["objdump", "-p", module], capture_output=True, encoding="utf-8", check=True
    ).stdout
    libraries = [line.split()[1] for line in needed.splitlines() if "NEEDED" in line]
    if any(name.startswith("libcuda.") for name in libraries):
        print(f"links libcuda: {libraries}")
        return 1
    try:
        opened = ctypes.CDLL(module)
    except OSError as error:
        print(f"skipped: {error}")
        return 77
    opened.shardlab_cuda_table.restype = ctypes.c_void_p
    return 0 if opened.shardlab_cuda_table() else 1


if __name__ == "__main__":
    sys.exit(main())
