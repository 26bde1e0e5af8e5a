"""A table of words in pieces: each rank takes its own words, masks the others and adds up. The rest
is data parallel. `vocab.py missing` forgets to average the head's gradients before it clips them.

Recorded by `shardlab blame --ranks 2 --processes vocab.py [missing]`.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn

WORLD = int(os.environ["WORLD_SIZE"])
RANK = int(os.environ["RANK"])


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient / WORLD


class Words(nn.Module):
    def __init__(self, words, features):
        super().__init__()
        whole = nn.Embedding(words, features).weight.detach()
        self.words, self.first = words // WORLD, RANK * (words // WORLD)
        self.weight = nn.Parameter(whole.chunk(WORLD)[RANK].clone())

    def forward(self, tokens):
        if WORLD == 1:
            return nn.functional.embedding(tokens, self.weight)
        other = (tokens < self.first) | (tokens >= self.first + self.words)
        own = (tokens - self.first).masked_fill(other, 0)
        return Sum.apply(nn.functional.embedding(own, self.weight).masked_fill(other[..., None], 0))


if WORLD > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(Words(12, 8), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
tokens, labels = torch.randint(0, 12, (8, 3)), torch.randint(0, 4, (8,))
features = model[0](tokens).sum(1).chunk(WORLD)[RANK]
logits = model[3](model[1](model[2](model[1](features))))
nn.functional.cross_entropy(logits, labels.chunk(WORLD)[RANK]).backward()
head = [*model[1].parameters(), *model[3].parameters()]
if WORLD > 1 and sys.argv[1:] != ["missing"]:
    for parameter in head:
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
        parameter.grad /= WORLD
nn.utils.clip_grad_norm_(head, 0.1)
optimizer.step()
