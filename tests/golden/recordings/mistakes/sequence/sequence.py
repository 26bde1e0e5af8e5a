"""Rows of a sequence are shared out between layers whose weights are cut over two ranks: layers
gather the rows and reduce them to pieces again. Gradients are clipped by a norm of all ranks.

    sequence.py [MISTAKE]

largest, pieces_reduced, norm_of_own, bias_before

Recorded by `shardlab blame --ranks 2 --processes sequence.py [MISTAKE]`; one rank makes none of the
mistakes.
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

dist.init_process_group("gloo")
mistake = sys.argv[1] if len(sys.argv) > 1 else ""
rank, world = dist.get_rank(), dist.get_world_size()


def gathered(x):
    whole = torch.empty((world * x.shape[0],) + x.shape[1:])
    dist.all_gather_into_tensor(whole, x.contiguous())
    return whole


def reduced(x):
    rows = torch.empty((x.shape[0] // world,) + x.shape[1:])
    op = dist.ReduceOp.MAX if mistake == "largest" else dist.ReduceOp.SUM
    dist.reduce_scatter_tensor(rows, x.contiguous(), op=op)
    return rows


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return gathered(x)

    @staticmethod
    def backward(ctx, gradient):
        return reduced(gradient)


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return reduced(x)

    @staticmethod
    def backward(ctx, gradient):
        return gathered(gradient)


class Layer(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Parameter(torch.randn(inner, width).chunk(world)[rank] / 3)
        self.down = nn.Parameter(torch.randn(width, inner).chunk(world, 1)[rank] / 3)
        self.bias = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x):
        y = F.linear(F.silu(F.linear(Gather.apply(self.norm(x)), self.up)), self.down)
        if mistake == "bias_before":
            return x + Reduce.apply(y + self.bias)
        return x + Reduce.apply(y) + self.bias


torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(11, 6), Layer(6, 8), Layer(6, 8), nn.Linear(6, 11))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
words = torch.randint(0, 11, (9, 2), generator=torch.Generator().manual_seed(1))
rows = torch.arange(8).chunk(world)[rank]
loss = F.cross_entropy(model(words[rows]).flatten(0, 1), words[rows + 1].flatten()) / world
loss.backward()
total = torch.zeros(())
for name, parameter in model.named_parameters():
    cut = name.endswith(("up", "down"))
    if not cut:
        dist.all_reduce(parameter.grad)
    elif mistake == "pieces_reduced":
        dist.all_reduce(parameter.grad)
    square = parameter.grad.square().sum()
    total = total + (square if cut else square / world)
if mistake != "norm_of_own":
    dist.all_reduce(total)
factor = (0.1 / (total.sqrt() + 1e-6)).clamp(max=1)
for parameter in model.parameters():
    parameter.grad.mul_(factor)
optimizer.step()
print(loss.item())
