"""Replicas after a step: each gradient is a term and is added up once, or it is not. A parameter is
stepped in the rows of each rank, which are sent to the others through views. Of a maximum over the
rows of all ranks the places are not read, and the loss is a term on each rank.

    shardlab record --ranks 2 --processes step.py [left_out | twice]
"""

import sys

import spmd_types as spmd
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

WIDTH, ROWS, RATE = 4, 6, 0.1
MISTAKE = sys.argv[1] if len(sys.argv) > 1 else ""


def drawn(seed, *sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)) / sizes[-1] ** 0.5


def add_up(weight):
    return spmd.all_reduce(weight.grad, "dp", src=spmd.P, dst=spmd.R)


def step_own_rows(weight):
    ranks, rank = dist.get_world_size(), dist.get_rank()
    rows = weight.detach().chunk(ranks)
    rows[rank].sub_(RATE * weight.grad.chunk(ranks)[rank])
    for root, part in enumerate(rows):
        dist.broadcast(part, root)


def main():
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp",))
    with spmd.set_current_mesh(mesh):
        first, second, third, frozen = (drawn(seed, WIDTH, WIDTH) for seed in range(4))
        for weight in (first, second, third):
            spmd.assert_type(weight.requires_grad_(), {"dp": spmd.R})
        spmd.assert_type(frozen, {"dp": spmd.R})
        optimizer = torch.optim.AdamW([second], lr=RATE)
        x = spmd.convert(drawn(4, ROWS, WIDTH), "dp", src=spmd.R, dst=spmd.S(0))
        h = torch.tanh(torch.tanh(x @ first) @ second) @ third + x @ frozen
        top = h.detach().max(0).values
        dist.all_reduce(top, op=dist.ReduceOp.MAX)
        loss = (h - top).pow(2).sum() / (ROWS * WIDTH)
        loss.backward()
        for weight in (first, second, third):
            if weight is not second or MISTAKE != "left_out":
                weight.grad = add_up(weight)
        if MISTAKE == "twice":
            first.grad = spmd.all_reduce(first.grad, "dp", src=spmd.P, dst=spmd.R)
        optimizer.step()
        with torch.no_grad():
            first -= RATE * first.grad
            step_own_rows(third)
            local = frozen * dist.get_rank()
            dist.all_reduce(local)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
