"""Words and their logits are cut over two ranks, twice, each with half of the rows in two
micro-batches. One rank of two counts what both have in the norm by which gradients are clipped.

    words.py [MISTAKE]

copy_not_reduced, copy_of_all, sum_of_own, largest_of_own, other_ranks, norm_of_own, norm_of_all,
counted_twice

Recorded by `shardlab blame --ranks 4 --processes words.py [MISTAKE]`; one rank makes none of the
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
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        if mistake != "copy_not_reduced":
            dist.all_reduce(gradient, group=None if mistake == "copy_of_all" else tp)
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


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(12, 6).chunk(wide)[own].clone())

    def forward(self, words):
        first = len(self.weight) * own
        others = (words < first) | (words >= first + len(self.weight))
        found = F.embedding((words - first).masked_fill(others, 0), self.weight)
        return Sum.apply(found.masked_fill(others[..., None], 0.0))


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(12, 6).chunk(wide)[own].clone())

    def forward(self, x):
        return F.linear(Copy.apply(x), self.weight)


def cross_entropy(logits, targets):
    most = logits.detach().amax(-1)
    if mistake != "largest_of_own":
        dist.all_reduce(most, op=dist.ReduceOp.MAX, group=tp)
    logits = logits - most[:, None]
    total = logits.exp().sum(-1)
    if mistake != "sum_of_own":
        total = Sum.apply(total)
    first = logits.shape[1] * own
    others = (targets < first) | (targets >= first + logits.shape[1])
    found = logits.gather(1, (targets - first).masked_fill(others, 0)[:, None])[:, 0]
    return (total.log() - Sum.apply(found.masked_fill(others, 0.0))).mean()


torch.manual_seed(5)
model = nn.Sequential(Words(), nn.LayerNorm(6), Head())
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
words = torch.randint(0, 12, (8, 4)).chunk(max(world // wide, 1))[rank // wide]
for batch in words.chunk(2):
    loss = cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten()) / 2
    loss.backward()
norm = torch.zeros(())
for name, p in model.named_parameters():
    dist.all_reduce(p.grad, group=tp if mistake == "other_ranks" else dp)
    p.grad /= max(world // wide, 1)
    square = p.grad.square().sum()
    if own == 0 or not name.startswith("1.") or mistake == "counted_twice":
        norm = norm + square
if mistake != "norm_of_own":
    dist.all_reduce(norm, group=None if mistake == "norm_of_all" else tp)
scale = (0.1 / norm.sqrt()).clamp(max=1)
for p in model.parameters():
    p.grad *= scale
optimizer.step()
