#!/usr/bin/env python3
"""Installs the module for GPUs, where it has been built: install_module.py FILE FOLDER.

Called by meson install, which builds it first, unless it has the option --no-rebuild.
"""

import os
import pathlib
import shutil
import sys


def main():
    module = pathlib.Path(sys.argv[1])
    folder = pathlib.Path(os.environ["MESON_INSTALL_DESTDIR_PREFIX"], sys.argv[2])
    if not module.exists():
        print(f"{module.name} has not been built, and is not installed")
        return
    if "MESON_INSTALL_QUIET" not in os.environ:
        print(f"Installing {module.name} to {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy2(module, folder / module.name)


if __name__ == "__main__":
    main()
