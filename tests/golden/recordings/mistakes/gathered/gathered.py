"""Two towers whose features are gathered, a norm with running statistics over all ranks, a loss
divided by the tokens that count, and a step of each rank.

    gathered.py [MISTAKE]

gathered_averaged, running_of_rank, tokens_of_rank, rate_by_rank, norm_summed_twice

Recorded by `shardlab blame --ranks 3 --processes gathered.py [MISTAKE]`; one rank makes none of the
mistakes.
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mistake = sys.argv[1] if len(sys.argv) > 1 and world > 1 else ""
rows = 12 // world
own = slice(rank * rows, (rank + 1) * rows)


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        parts = [torch.empty_like(x) for _ in range(world)]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous().clone()
        dist.all_reduce(gradient)
        if mistake == "gathered_averaged":
            gradient = gradient / world
        return gradient[own]


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x):
        count = x.shape[0] * world
        mean = Sum.apply(x.sum(0)) / count
        variance = Sum.apply((x - mean).square().sum(0)) / count
        with torch.no_grad():
            running = x.var(0) if mistake == "running_of_rank" else variance * count / (count - 1)
            self.variance.lerp_(running, 0.1)
        return (x - mean) * (variance + 1e-5).rsqrt() * self.weight


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Sequential(nn.Linear(6, 7), Norm(7), nn.Linear(7, 5))
        self.right = nn.Linear(4, 5)

    def forward(self, x, y):
        a, b = F.normalize(self.left(x), dim=-1), F.normalize(self.right(y), dim=-1)
        return 4 * a @ Gather.apply(b).T


torch.manual_seed(5)
model = Towers()
x, y = torch.randn(12, 6), torch.randn(12, 4)
labels = torch.arange(12)
labels[2] = labels[9] = -100
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
lost = F.cross_entropy(model(x[own], y[own]), labels[own], ignore_index=-100, reduction="sum")
tokens = (labels[own] != -100).sum().float()
if mistake == "tokens_of_rank":
    tokens = tokens * world
else:
    dist.all_reduce(tokens)
    tokens = tokens * 1
loss = lost / tokens
loss.backward()
for name, p in model.named_parameters():
    dist.all_reduce(p.grad)
    if mistake == "norm_summed_twice" and name == "left.1.weight":
        dist.all_reduce(p.grad)
shown = loss.detach().clone()
dist.all_reduce(shown)  # printed by one rank, and read by nobody
if mistake == "rate_by_rank":
    optimizer.param_groups[0]["lr"] *= 1 + rank
optimizer.step()
if rank == 0:
    print(shown.item())
dist.destroy_process_group()
