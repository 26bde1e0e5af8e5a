"""Parameters of no module that a program meets between collectives, a number that ranks log, and a
mistake:

    leaves.py [own_rate | twice]

Recorded by `shardlab record --ranks 2 --processes leaves.py [MISTAKE]`; one rank makes no mistake.
The scale is stepped by hand.
"""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mistake = sys.argv[1] if len(sys.argv) > 1 and world > 1 else ""
torch.manual_seed(0)
wholes = [torch.randn(*sizes) / sizes[0] ** 0.5 for sizes in ((6, 8), (8, 6), (6, 8), (8, 6))]
scale = torch.ones(6, requires_grad=True)
x, target = torch.randn(5, 6), torch.randn(5, 6)


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y):
        y = y.clone()
        dist.all_reduce(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y):
        return y.view_as(y)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


def block(x, up, down):
    return x + Sum.apply(torch.relu(Copy.apply(x) @ up) @ down)


up, down, up_2, down_2 = (
    whole.chunk(world, 1 - i % 2)[rank].clone().requires_grad_() for i, whole in enumerate(wholes)
)
optimizer = torch.optim.AdamW([up, down, up_2, down_2], lr=0.1)
h = block(x, up, down) * scale
if world > 1:
    mean = h.detach().mean()
    dist.all_reduce(mean)
(block(h, up_2, down_2) - target).square().mean().backward()
if mistake == "own_rate" and rank == 1:
    up_2.grad *= 3
if mistake == "twice":
    scale.grad *= 2
optimizer.step()
with torch.no_grad():
    scale -= 0.1 * scale.grad
dist.destroy_process_group()
