"""Layers cut over two ranks, twice, each with half of the rows in two micro-batches.

    grid.py [MISTAKE]

one_not_reduced, copy_not_reduced

Recorded by `shardlab blame --ranks 4 --processes grid.py [MISTAKE]`; one rank makes none of the
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
wide = max(world // 2, 1)  # ranks of a model
columns = [dist.new_group(list(range(i, i + wide))) for i in range(0, world, wide)]
rows = [dist.new_group(list(range(i, world, wide))) for i in range(wide)]
tp, dp, own = columns[rank // wide], rows[rank % wide], rank % wide


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        if mistake != "copy_not_reduced":
            dist.all_reduce(gradient, group=tp)
        return gradient


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x, group=tp)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        up, down, bias = torch.randn(6, 5) / 2, torch.randn(5, 6) / 2, torch.randn(5) / 9
        self.up = nn.Parameter(up.chunk(wide)[own].clone())
        self.down = nn.Parameter(down.chunk(wide, 1)[own].clone())
        self.bias = nn.Parameter(bias)

    def forward(self, x):
        hidden = F.gelu(F.linear(Copy.apply(x), self.up))
        return x + Sum.apply(F.linear(hidden, self.down)) + self.bias


torch.manual_seed(9)
model = nn.Sequential(Layer(), Layer(), Layer())
x, y = torch.randn(8, 5), torch.randn(8, 5)
shard = slice(rank // wide * 8 * wide // world, (rank // wide + 1) * 8 * wide // world)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
lost = 0.0
for part, target in zip(x[shard].chunk(2), y[shard].chunk(2)):
    loss = F.mse_loss(model(part), target) / 2
    loss.backward()
    lost += loss.item()
for name, p in model.named_parameters():
    if mistake != "one_not_reduced" or name != "1.down":
        dist.all_reduce(p.grad, group=dp)
        p.grad /= world // wide
optimizer.step()
print(rank, lost)  # each rank's own
dist.destroy_process_group()
