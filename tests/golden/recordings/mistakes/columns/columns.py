"""A layer that is cut by columns and one by rows, with biases that begin as zeros: pieces of one,
and the other is whole on every rank.

    columns.py [MISTAKE]

own_bias

Recorded by `shardlab blame --ranks 2 --processes columns.py [MISTAKE]`; one rank makes no mistake.
"""

import sys

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mistake = sys.argv[1] if len(sys.argv) > 1 and world > 1 else ""


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Layers(nn.Module):
    def __init__(self, up, down):
        super().__init__()
        self.up = nn.Parameter(up.chunk(world)[rank].clone())
        self.up_bias = nn.Parameter(torch.zeros(8).chunk(world)[rank].clone())
        self.down = nn.Parameter(down.chunk(world, 1)[rank].clone())
        self.down_bias = nn.Parameter(torch.zeros(5))

    def forward(self, x):
        own = torch.relu(x @ self.up.T + self.up_bias) @ self.down.T
        return Sum.apply(own) + self.down_bias


torch.manual_seed(5)
model = Layers(torch.randn(8, 6), torch.randn(5, 8))
x, targets = torch.randn(7, 6), torch.randn(7, 5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
(model(x) - targets).square().mean().backward()
if mistake == "own_bias":
    model.down_bias.grad *= 1 + rank
optimizer.step()
dist.destroy_process_group()
