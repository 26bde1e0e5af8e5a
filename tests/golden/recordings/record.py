#!/usr/bin/env python3
"""Writes the recordings next to this file, with the PyTorch that is installed.

    record.py [NAME...]

Parameters get the elements of a formula before the step, so that files stay small. Programs on
several ranks (parallel.py, orders.py) are NAME_RANKS, and their files are in ranks/ and orders/;
those of processes are merged by the `shardlab` on the path.
"""

import functools
import os
import pathlib
import subprocess
import sys

import torch

SHAPES = "shapes"  # llama without elements
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "sim" / "record_torch"))

import programs  # noqa: E402
import shardlab_record  # noqa: E402
from orders import ORDERS  # noqa: E402

PROCESSES = {  # on gloo
    "by_hand": 2, "ddp": 2, "fsdp": 2, "fsdp_uneven": 3, "fsdp_sp": 4, "fsdp_sp_uneven": 4,
    "fsdp_hybrid": 4, "fsdp_mixed": 2, "fsdp_checkpoint": 2, "fsdp_autocast": 2, "fsdp_rows": 2,
    "experts": 2, "ring": 4, "pipeline": 2, "chain": 3, "lists": 4, "stages": 4, "layouts": 2,
    "exchange": 3, "context": 4, "memories": 2,
}
PIECES = ("stages",)  # of DTensors those of each rank
RANKS = {
    "mlp_tp": (2, 4), "next_token_tp": (2,), "mesh_2d": (4, 6), "tp_of_two": (4,), "llama_tp": (4,),
    "llama_sp": (2, 4), "llama_sp_loss": (4,), "llama_checkpoint": (4,), "llama_autocast": (4,),
    "gathered": (2,), "views": (4,),
}


def record(program, path, values="fp", level="both"):
    torch.manual_seed(0)
    model, optimizer, step = program()
    recorder = shardlab_record.record(str(path), model, optimizer, values=values, level=level)
    recorder.fills = shardlab_record.fill_parameters(model)
    with recorder:
        step()
    print(f"{path.name}: {recorder.file.events} events, {os.path.getsize(recorder.path)} bytes")


def process(rank, name, count, path):
    import orders
    import parallel

    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29571")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=count)
    level = "pieces" if name in PIECES else "both"
    own = parallel.PROCESSES.get(name, functools.partial(orders.program, name))
    record(functools.partial(own, count), pathlib.Path(path), level=level)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def processes(name, count, path):
    """One file a process; `shardlab merge` is the first word on the path."""
    torch.multiprocessing.spawn(process, (name, count, path), count)
    files = sorted(path.parent.glob(path.name.replace(".json", ".r*.json")))
    subprocess.run(["shardlab", "merge", *files, "--out", path], check=True)
    for file in files:
        file.unlink()


def main():
    torch.set_num_threads(1)
    release = torch.__version__.split("+", maxsplit=1)[0]
    several = {f"{name}_{n}": (name, n) for name, counts in RANKS.items() for n in counts}
    on_gloo = {f"{name}_{n}": (name, n) for name, n in (PROCESSES | ORDERS).items()}
    for name in sys.argv[1:] or [*programs.PROGRAMS, SHAPES, *several, *on_gloo]:
        if name in on_gloo:
            own, ranks = on_gloo[name]
            folder = HERE / ("orders" if own in ORDERS else "ranks")
            processes(own, ranks, folder / f"{name}__{release}.json.gz")
            continue
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
