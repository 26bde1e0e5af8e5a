#!/usr/bin/env python3
"""Writes the recordings beside this file, with the PyTorch that is installed.

    record.py [NAME...]

Parameters get the elements of a formula before the step, so that files stay small.
"""

import pathlib
import sys

import torch

SHAPES = "shapes"  # llama without elements
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "sim" / "record_torch"))

import programs  # noqa: E402
import shardlab_record  # noqa: E402


def main():
    torch.set_num_threads(1)
    release = torch.__version__.split("+", maxsplit=1)[0]
    for name in sys.argv[1:] or [*programs.PROGRAMS, SHAPES]:
        torch.manual_seed(0)
        program = "llama" if name == SHAPES else name
        model, optimizer, step = programs.PROGRAMS[program]()
        path = HERE / f"{name}__{release}.json.gz"
        values = "none" if name == SHAPES else "fp"
        recorder = shardlab_record.record(str(path), model, optimizer, values=values)
        recorder.fills = shardlab_record.fill_parameters(model)
        with recorder:
            step()
        print(f"{path.name}: {recorder.file.events} events, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
