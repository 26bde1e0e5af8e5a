#!/usr/bin/env python3
"""Writes the recordings beside this file, with the PyTorch that is installed.

    record.py [NAME...]

Parameters get the elements of a formula before the step, so that files stay small. Programs on
several ranks (parallel.py) are NAME_RANKS, and their files are in ranks/.
"""

import functools
import pathlib
import sys

import torch

SHAPES = "shapes"  # llama without elements
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "sim" / "record_torch"))

import programs  # noqa: E402
import shardlab_record  # noqa: E402

RANKS = {
    "mlp_tp": (2, 4), "mesh_2d": (4, 6), "tp_of_two": (4,), "llama_tp": (4,), "llama_sp": (2, 4),
    "llama_sp_loss": (4,), "llama_checkpoint": (4,),
}


def record(program, path, values="fp"):
    torch.manual_seed(0)
    model, optimizer, step = program()
    recorder = shardlab_record.record(str(path), model, optimizer, values=values)
    recorder.fills = shardlab_record.fill_parameters(model)
    with recorder:
        step()
    print(f"{path.name}: {recorder.file.events} events, {path.stat().st_size} bytes")


def main():
    torch.set_num_threads(1)
    release = torch.__version__.split("+", maxsplit=1)[0]
    several = {f"{name}_{n}": (name, n) for name, counts in RANKS.items() for n in counts}
    for name in sys.argv[1:] or [*programs.PROGRAMS, SHAPES, *several]:
        if name not in several:
            program = programs.PROGRAMS["llama" if name == SHAPES else name]
            values = "none" if name == SHAPES else "fp"
            record(program, HERE / f"{name}__{release}.json.gz", values)
            continue
        own, ranks = several[name]
        with shardlab_record.simulate(ranks):
            import parallel

            program = functools.partial(parallel.PROGRAMS[own], ranks)
            record(program, HERE / "ranks" / f"{name}__{release}.json.gz")


if __name__ == "__main__":
    main()
