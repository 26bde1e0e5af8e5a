#!/usr/bin/env python3
"""Writes PyTorch's output for the programs of this folder: NAME.py gives NAME.txt.

    record.py [NAME...]

Needs PyTorch (2.15 was used), and nothing that is built or tested runs it.
"""

import contextlib
import io
import pathlib
import sys

import torch
import torch.nn.functional as F


def show(name, tensor):
    print(name, list(tensor.shape), tensor.tolist())


def printed(code):
    names = {name: getattr(torch, name) for name in dir(torch) if not name.startswith("_")}
    names |= {"torch": torch, "F": F, "grad": torch.autograd.grad}
    names |= {"place": lambda tensor: tensor, "show": show}
    names |= {name: getattr(__builtins__, name) for name in ("abs", "bool", "float", "int", "max",
                                                             "min",
                                                             "print", "range", "round", "sum")}
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "program", "exec"), names)  # a program of this folder
    return output.getvalue()


folder = pathlib.Path(__file__).parent
for path in sorted(folder.glob("*.py")):
    if path.name == "record.py" or (sys.argv[1:] and path.stem not in sys.argv[1:]):
        continue
    path.with_suffix(".txt").write_text(printed(path.read_text(encoding="utf-8")), encoding="utf-8")
