#!/usr/bin/env python3
"""Writes down the order in which the ranks of torch.distributed.pipelining pass messages, on gloo.

    record.py FACTS.jsonl

Writes the file: a line for each schedule, with each rank's messages in the order in which they are
posted: "send F 1" sends the result of a stage to rank 1, "recv B 1" receives a gradient from it.
Needs PyTorch (2.15.0 was used), and nothing that is built or tested runs it.
"""

import json
import multiprocessing
import os
import socket
import sys

import torch
import torch.distributed as dist
from torch.distributed.pipelining import (PipelineStage, Schedule1F1B, ScheduleGPipe,
                                          ScheduleInterleaved1F1B, schedules)

ROWS, WIDTH = 2, 4  # of a micro-batch


def cases_of(ranks):
    for micro in (4, 6, 8):
        yield "gpipe", 1, micro
        yield "1f1b", 1, micro
        if micro % ranks == 0:
            yield "interleaved", 2, micro
    if ranks == 2:
        yield "interleaved", 3, 4


def post_and_note(log, passes):
    """Replaces the function that posts the messages of a step."""
    post, depth = schedules._batch_p2p, [0]

    def noted(ops, desc=None):
        if depth[0] == 0:
            log.extend(f"{op.op.__name__[1:]} {passes[id(op)]} {op.group_peer}" for op in ops)
        depth[0] += 1
        works = post(ops, desc=desc)
        depth[0] -= 1
        return works

    schedules._batch_p2p = noted
    return post


def note_passes(stage, passes, kept):
    """Notes the pass of the messages that a stage asks for."""
    for name in ("get_fwd_recv_ops", "get_fwd_send_ops", "get_bwd_recv_ops", "get_bwd_send_ops"):
        def ask(micro, asked=getattr(stage, name), which=name[4].upper()):
            ops = asked(micro)
            kept.extend(ops)  # so that no other one gets its number
            passes.update({id(op): which for op in ops})
            return ops
        setattr(stage, name, ask)


def messages(kind, rank, ranks, chunks, micro):
    log, passes, kept = [], {}, []
    post = post_and_note(log, passes)
    sample = torch.randn(ROWS, WIDTH, requires_grad=True)
    stages = []
    for index in range(rank, ranks * chunks, ranks):
        taken = sample if index > 0 else sample.detach()
        stages.append(PipelineStage(torch.nn.Linear(WIDTH, WIDTH), index, ranks * chunks,
                                    torch.device("cpu"), input_args=(taken,),
                                    output_args=(sample,)))
        note_passes(stages[-1], passes, kept)

    def loss(y, target):
        return ((y - target) ** 2).sum()

    if kind == "interleaved":
        schedule = ScheduleInterleaved1F1B(stages, micro, loss_fn=loss)
    else:
        made = ScheduleGPipe if kind == "gpipe" else Schedule1F1B
        schedule = made(stages[0], micro, loss_fn=loss)
    batch = torch.randn(ROWS * micro, WIDTH)
    given = (batch,) if rank == 0 else ()
    targets = {"target": batch} if rank == ranks - 1 else {}
    schedule.step(*given, **targets)
    schedules._batch_p2p = post
    return log


def on_rank(rank, ranks, port, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.set_num_threads(1)
    results.put((rank, [messages(kind, rank, ranks, chunks, micro)
                        for kind, chunks, micro in cases_of(ranks)]))
    dist.barrier()
    dist.destroy_process_group()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    context = multiprocessing.get_context("spawn")
    with open(sys.argv[1], "w", encoding="utf-8") as facts:
        for ranks in (2, 3, 4):
            results, port = context.Queue(), free_port()
            processes = [context.Process(target=on_rank, args=(rank, ranks, port, results))
                         for rank in range(ranks)]
            for process in processes:
                process.start()
            by_rank = dict(results.get(timeout=300) for _ in processes)
            for process in processes:
                process.join()
            for i, (kind, chunks, micro) in enumerate(cases_of(ranks)):
                print(json.dumps({"schedule": kind, "ranks": ranks, "chunks": chunks,
                                  "micro": micro,
                                  "messages": [by_rank[rank][i] for rank in range(ranks)]}),
                      file=facts)


if __name__ == "__main__":
    main()
