#!/usr/bin/env python3
"""One object file of several, of whose symbols others see only one.

    keep_symbol.py LD OBJCOPY OUTPUT SYMBOL INPUT...

A second copy of code, compiled for another processor, must not be taken where the first one is
meant: a linker keeps one of several functions of the same name, inline functions and templates of
the standard library among them, whatever instructions they use. Here the copy keeps its own.
SYMBOL is a part of the mangled name.
"""

import os
import subprocess
import sys


def main(ld, objcopy, output, symbol, *inputs):
    joined = output + ".joined"
    # Functions that stand in several inputs are joined now: later on their groups have no names.
    subprocess.run([ld, "-r", "--force-group-allocation", "-o", joined, *inputs], check=True)
    subprocess.run([objcopy, "--wildcard", f"--keep-global-symbol=*{symbol}*", joined, output],
                   check=True)
    os.remove(joined)


main(*sys.argv[1:])
