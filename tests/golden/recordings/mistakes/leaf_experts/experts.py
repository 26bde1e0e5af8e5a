"""Experts of each rank and a router of all, parameters that no module has, and a mistake:

    experts.py [router | expert]

Recorded by `shardlab record --ranks 2 --processes experts.py [MISTAKE]`; one rank has all experts
and makes no mistake.
"""

import sys

import torch
import torch.distributed as dist

EXPERTS, WIDTH = 4, 6
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mistake = sys.argv[1] if len(sys.argv) > 1 and world > 1 else ""
torch.manual_seed(0)
router = torch.randn(WIDTH, EXPERTS).requires_grad_()
experts = [torch.randn(WIDTH, WIDTH) / 3 for _ in range(EXPERTS)]
count = EXPERTS // world
mine = [experts[rank * count + i].clone().requires_grad_() for i in range(count)]
x, target = torch.randn(5, WIDTH), torch.randn(5, WIDTH)


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y):
        y = y.clone()
        dist.all_reduce(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        return gradient


optimizer = torch.optim.SGD([router, *mine], lr=0.1, momentum=0.9)
gates = (x @ router).softmax(1)
y = sum(gates[:, rank * count + i, None] * torch.tanh(x @ w) for i, w in enumerate(mine))
(Sum.apply(y) - target).square().mean().backward()
if mistake != "router":
    dist.all_reduce(router.grad)
if mistake == "expert" and rank == 1:
    mine[1].grad *= 2
optimizer.step()
dist.destroy_process_group()
