"""Programs whose calls may wait for each other on some fabric, though they end on gloo.

Each is a step of a rank, recorded for the tests of proofs; some are those of scenarios/hangs.
"""

import threading

import torch
import torch.distributed as dist
from torch import nn

# A schedule of two ranks, whose messages meet head on.
HEAD_ON = """0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0WAIT_SEND_F0,0RECV_B1,0B1,0WAIT_SEND_F1
1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1WAIT_SEND_B0,1WAIT_SEND_B1"""


def head_on(rank, ranks):
    t, got = torch.ones(4), torch.zeros(4)
    sent = dist.isend(t, 1 - rank)
    received = dist.irecv(got, 1 - rank)
    sent.wait()
    received.wait()


def batched(rank, ranks):
    t, got = torch.ones(4), torch.zeros(4)
    ops = [dist.P2POp(dist.isend, t, 1 - rank), dist.P2POp(dist.irecv, got, 1 - rank)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()


def first_use(rank, ranks):
    t, got = torch.ones(4), torch.zeros(4)
    sent = dist.isend(t, (rank + 1) % ranks)
    received = dist.irecv(got, (rank - 1) % ranks)
    received.wait()
    sent.wait()


def two_groups(rank, ranks):
    a, b = torch.ones(4), torch.ones(4)
    order = ((a, GROUPS[0]), (b, GROUPS[1]))
    for work in [dist.all_reduce(x, group=group, async_op=True)
                 for x, group in (order if rank == 0 else order[::-1])]:
        work.wait()


def before_a_barrier(rank, ranks):
    t = torch.ones(4)
    if rank == 0:
        work = dist.isend(t, 1)
        dist.barrier()
    else:
        dist.barrier()
        work = dist.irecv(t, 0)
    work.wait()


def any_sender(rank, ranks):
    t = torch.ones(4)
    if rank == 0:
        dist.recv(t)
        dist.recv(t)
    else:
        dist.send(t, 0)


def poll(rank, ranks):
    t = torch.ones(4)
    if rank == 0:
        work = dist.irecv(t, 1)
        for _ in range(2):
            work.is_completed()
        work.wait()
    else:
        dist.isend(t, 0).wait()


def threads(rank, ranks):
    t = torch.ones(4)

    def other():
        dist.all_reduce(t)

    own = threading.Thread(target=other)
    own.start()
    own.join()
    dist.all_reduce(t)


def schedule(rank, ranks):
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _Action, _PipelineScheduleRuntime

    model = nn.Linear(4, 4)
    passed = torch.ones(2, 4, requires_grad=True)
    stage = PipelineStage(model, rank, ranks, torch.device("cpu"),
                          input_args=(passed if rank else passed.detach(),),
                          output_args=(passed,))
    runtime = _PipelineScheduleRuntime([stage], 2, loss_fn=lambda out, _: out.sum())
    rows = [row.split(",") for row in HEAD_ON.split("\n")]
    runtime._prepare_schedule_with_comms(
        {i: [_Action.from_str(cell) for cell in row] for i, row in enumerate(rows)},
        format="compute_comms")

    def step():
        x = torch.ones(4, 4)
        return runtime.step(x) if rank == 0 else runtime.step(target=x)

    return step


ORDERS = {"head_on": 2, "batched": 2, "first_use": 4, "two_groups": 2, "other_calls": 2,
          "other_group": 2, "before_a_barrier": 2, "any_sender": 3, "poll": 2, "threads": 2,
          "posts_elsewhere": 2, "deferred": 2, "schedule": 2}
GROUPS = []


def program(name, ranks):
    """(model, optimizer, step), as those of parallel.py."""
    rank = dist.get_rank()
    GROUPS[:] = [dist.new_group(list(range(ranks))) for _ in range(2)]
    step = globals()[name]
    pipeline = name in ("schedule", "deferred")
    step = step(rank, ranks) if pipeline else lambda: globals()[name](rank, ranks)
    return nn.Linear(4, 4), None, step


def other_calls(rank, ranks):
    """Two groups of the same ranks, which one rank enters in the other order with other calls."""
    a, b = torch.ones(4) * (rank + 1), torch.ones(4) * (rank + 3)
    first = [lambda: dist.all_reduce(a, group=GROUPS[0], async_op=True),
             lambda: dist.broadcast(b, 1, group=GROUPS[1], async_op=True)]
    for work in [begin() for begin in first[::1 if rank == 0 else -1]]:
        work.wait()
    (a + b).sum()


def other_group(rank, ranks):
    """Two messages between the same ranks, which meet by their groups and not by their order."""
    a, b = torch.ones(4) * (rank + 1), torch.ones(4) * (rank + 3)
    pairs = [(a, GROUPS[0]), (b, GROUPS[1])]
    if rank == 0:
        works = [dist.isend(t, 1, group=group) for t, group in pairs]
    else:
        works = [dist.irecv(t, 0, group=group) for t, group in pairs[::-1]]
    for work in works:
        work.wait()
    (a + b).sum()


def posts_elsewhere(rank, ranks):
    """Another thread posts, and this one waits."""
    t, works = torch.ones(4), []
    own = threading.Thread(target=lambda: works.append(dist.all_reduce(t, async_op=True)))
    own.start()
    own.join()
    works[0].wait()
    dist.all_reduce(t)


def deferred(rank, ranks):
    """Messages that torch's defer_pp_recv=True delivers to receives of others."""
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import ScheduleInterleavedZeroBubble

    passed = torch.ones(2, 4, requires_grad=True)
    models = [nn.Linear(4, 4) for _ in range(2)]
    stages = [PipelineStage(model, rank + ranks * i, 2 * ranks, torch.device("cpu"),
                            input_args=(passed if rank or i else passed.detach(),),
                            output_args=(passed,)) for i, model in enumerate(models)]
    runtime = ScheduleInterleavedZeroBubble(stages, 4, loss_fn=lambda out, _: out.sum(),
                                            defer_pp_recv=True)

    def step():
        x = torch.ones(8, 4)
        return runtime.step(x) if rank == 0 else runtime.step(target=x)

    return step
