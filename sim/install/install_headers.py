#!/usr/bin/env python3
"""Installs the headers of the library: install_headers.py ROOT INCLUDEDIR, called by meson install.

Installs sim/install/shardlab/*.h as INCLUDEDIR/shardlab, and all headers that they include below
it, in the folders of the repository: src/mesh/spec.h is INCLUDEDIR/shardlab/src/mesh/spec.h.
"""

import os
import pathlib
import re
import shutil
import sys

INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def needed(root):
    """All headers of the repository that the public ones need, the public ones first."""
    public = sorted((root / "sim/install/shardlab").glob("*.h"))
    left, found = list(public), list(public)
    while left:
        for name in INCLUDE.findall(left.pop().read_text(encoding="utf-8")):
            places = [root / folder / name for folder in ("sim/install", "src", "")]
            header = next((place for place in places if place.is_file()), None)
            if header is None:
                sys.exit(f"error: no header {name}")
            if header not in found:
                found.append(header)
                left.append(header)
    return found


def main():
    root = pathlib.Path(sys.argv[1])
    folder = pathlib.Path(os.environ["MESON_INSTALL_DESTDIR_PREFIX"], sys.argv[2], "shardlab")
    for header in needed(root):
        public = header.is_relative_to(root / "sim/install/shardlab")
        target = folder / header.relative_to(root / "sim/install/shardlab" if public else root)
        if "MESON_INSTALL_QUIET" not in os.environ:
            print(f"Installing {header.relative_to(root)} to {target.parent}")
        if "MESON_INSTALL_DRY_RUN" not in os.environ:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(header, target)


if __name__ == "__main__":
    main()
