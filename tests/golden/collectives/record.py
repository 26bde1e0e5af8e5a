#!/usr/bin/env python3
"""Writes down the results of torch.distributed for the programs of a file of facts, on gloo.

    record.py FACTS.jsonl

The file has a line for each program (README.md describes it); its outcomes are recorded anew. Needs
PyTorch (2.15.0 was used), and nothing that is built or tested runs it. Each program runs in 2 to 4
processes of its own, so that one that fails or hangs leaves nothing behind.
"""

import ast
import datetime
import json
import math
import multiprocessing
import os
import pathlib
import sys
import tempfile
import traceback
import warnings

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.distributed.nn.functional  # noqa: F401 (dist.nn)

PATIENCE = datetime.timedelta(seconds=3)
# gloo's errors on a rank that waited for one that failed or never came.
WAITED = ("Timed out", "timed out", "Connection closed", "Connection reset", "connection reset")


def numbers_of(tensor):
    if tensor.is_complex():
        return torch.view_as_real(tensor).flatten().tolist()
    return [number_of(x) for x in tensor.flatten().tolist()]


def number_of(x):
    if isinstance(x, float) and not math.isfinite(x):
        return "nan" if math.isnan(x) else "inf" if x > 0 else "-inf"
    return x


def value_of(value):
    """As JSON; None for values that are not compared."""
    if isinstance(value, torch.Tensor):
        value = value.detach()
        dtype = str(value.dtype).removeprefix("torch.")
        return {"dtype": dtype, "shape": list(value.shape), "data": numbers_of(value)}
    if value is None or isinstance(value, (bool, int, str)):
        return {"value": value}
    if isinstance(value, float):
        return {"value": number_of(value)}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [value_of(item) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[value_of(key), value_of(item)] for key, item in value.items()]}
    if isinstance(value, dist.Work):
        return {"work": True}
    return None


def error_of(error):
    """The line of the program at which it failed, or waited."""
    line = [
        at.lineno for at in traceback.extract_tb(error.__traceback__) if at.filename == "program"
    ][-1]
    kind = "waits" if any(word in str(error) for word in WAITED) else "fails"
    outcome = {kind: type(error).__name__, "line": line}
    text = str(error).strip().partition("\n")[0]
    # Not texts that hold for this run alone: times, ports, addresses.
    if kind == "fails" and not text.startswith("[") and " object at 0x" not in text:
        outcome["text"] = text[:200]
    return outcome


def run(program, shown, rank, world, folder, number):
    store = dist.FileStore(os.path.join(folder, f"{world}_{number}"), world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=PATIENCE)
    dist.barrier()  # no rank is gone before the last one has come
    names = {"torch": torch, "dist": dist, "funcol": funcol, "rank": rank, "world_size": world}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(program, "program", "exec"), names)
    except Exception as error:  # any exception of a program is the fact
        outcome = error_of(error)
    else:
        left = {name: value_of(names[name]) for name in shown if name in names}
        outcome = {"values": {name: value for name, value in left.items() if value is not None}}
    if "values" in outcome:
        dist.destroy_process_group()
    return outcome


def one_rank(rank, results, *arguments):
    torch.set_num_threads(1)
    program, shown, world, folder, number = arguments
    results.put((rank, run(program, shown, rank, world, folder, number)))


def assigned(program):
    """Names that the program gives values to, sorted."""
    targets = (node for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Name))
    return sorted({node.id for node in targets if isinstance(node.ctx, ast.Store)})


def record(program, shown, world, folder, number):
    """The outcome of the program on each rank: of the names `shown`."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    arguments = (program, shown, world, folder, number)
    ranks = [
        context.Process(target=one_rank, args=(rank, queue, *arguments)) for rank in range(world)
    ]
    for process in ranks:
        process.start()
    outcomes = dict(queue.get(timeout=60) for _ in ranks)
    for process in ranks:
        process.join(10)
        process.kill()
    return [outcomes[rank] for rank in range(world)]


def main():
    path = pathlib.Path(sys.argv[1])
    facts = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        for number, fact in enumerate(facts):
            shown = assigned(fact["collectives"])
            fact["ranks"] = record(fact["collectives"], shown, fact["world"], folder, number)
            if "means" in fact:
                number = f"{number}_meant"
                fact["meant"] = record(fact["means"], shown, fact["world"], folder, number)
    lines = [json.dumps(fact) + "\n" for fact in facts]
    path.write_text("".join(lines), encoding="utf-8")
    print(len(facts), "facts")


if __name__ == "__main__":
    main()
