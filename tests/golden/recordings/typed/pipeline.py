"""Two stages of two ranks each: a stage is a program on its own mesh, and its messages are not
typed. On one process both stages are one program.

    shardlab record --ranks 4 --processes pipeline.py
"""

import spmd_types as spmd
import torch
import torch.distributed as dist
import torch.nn.functional as F
from spmd_types import checker
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

ROWS, WIDTH, INNER = 4, 8, 12


def drawn(seed, *sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)) / sizes[-1] ** 0.5


class Stage(nn.Module):
    """A feed-forward layer over tp."""

    def __init__(self, number):
        super().__init__()
        up, down = drawn(2 * number, INNER, WIDTH), drawn(2 * number + 1, WIDTH, INNER)
        up = spmd.convert(up, "tp", src=spmd.R, dst=spmd.S(0))
        down = spmd.convert(down, "tp", src=spmd.R, dst=spmd.S(1))
        self.up, self.down = (nn.Parameter(one.contiguous().clone()) for one in (up, down))

    def forward(self, x):
        spmd.assert_type(self.up, {"tp": spmd.S(0)})
        spmd.assert_type(self.down, {"tp": spmd.S(1)})
        spmd.assert_type(x, {"tp": spmd.I})
        h = spmd.convert(x, "tp", src=spmd.I, dst=spmd.R)
        terms = F.linear(F.silu(F.linear(h, self.up)), self.down)
        y = x + spmd.all_reduce(terms, "tp", src=spmd.P, dst=spmd.I)
        spmd.assert_type(y, {"tp": spmd.I})
        return y


def receive(source):
    with spmd.no_typecheck():
        x = torch.empty(ROWS, WIDTH)
        dist.recv(x, source)
    return x


def send(x, target):
    with spmd.no_typecheck():
        dist.send(x.detach().contiguous(), target)


def main():
    dist.init_process_group("gloo")
    world, rank = dist.get_world_size(), dist.get_rank()
    mesh = init_device_mesh("cpu", (max(world // 2, 1), min(world, 2)), mesh_dim_names=("pp", "tp"))
    first, last = rank < 2, world == 1 or rank >= 2
    with spmd.set_current_mesh(mesh["tp"]):
        stages = [Stage(number) for number, here in ((0, first), (1, last)) if here]
        optimizer = torch.optim.SGD([one for s in stages for one in s.parameters()], lr=0.1)
        batch = drawn(9, ROWS, WIDTH)
        with checker.typecheck("strict", local=False):
            start = batch if first else receive(rank - 2)
            x = start.requires_grad_(not first)
            for stage in stages:
                x = stage(x)
            if last:
                loss = x.pow(2).sum() / ROWS
                loss.backward()
                if not first:
                    send(start.grad, rank - 2)
            else:
                send(x, rank + 2)
                gradient = receive(rank + 2)
                spmd.assert_type(gradient, {"tp": spmd.I})
                x.backward(gradient)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
