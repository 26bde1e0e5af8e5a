"""Two stages by two replicas, which cut the batch once more than one process, clipped by hand.

    replicas.py [MISTAKE]

not_divided: the loss, by the number of its parts, which clipping hides

Recorded by `shardlab blame --ranks 4 --processes replicas.py [MISTAKE]`; one rank makes none of
the mistakes.
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mistake = sys.argv[1] if len(sys.argv) > 1 and world > 1 else ""
stages = 2 if world > 1 else 1
replicas = world // stages
stage, replica = rank % stages, rank // stages
groups = [dist.new_group([r for r in range(world) if r % stages == s]) for s in range(stages)]
WORDS, WIDTH, ROWS, PARTS = 7, 4, 8, 2
torch.manual_seed(3)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + F.gelu(self.mix(self.norm(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        table, layers = nn.Embedding(WORDS, WIDTH), [Layer(), Layer()]
        head = nn.Linear(WIDTH, WORDS)
        own = range(2) if stages == 1 else [stage]
        self.layers = nn.ModuleDict({str(i): layers[i] for i in own})
        self.table = table if stage == 0 else None
        self.head = head if stage == stages - 1 else None

    def forward(self, x):
        x = x if self.table is None else self.table(x)
        for layer in self.layers.values():
            x = layer(x)
        return x if self.head is None else self.head(x)


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
words, labels = torch.randint(0, WORDS, (ROWS, 3)), torch.randint(0, WORDS, (ROWS, 3))
own = torch.arange(ROWS).tensor_split(replicas)[replica]
for step in range(2):
    optimizer.zero_grad()
    for rows in own.chunk(PARTS):
        x = words[rows]
        if stage > 0:
            x = torch.empty(len(rows), 3, WIDTH)
            dist.recv(x, rank - 1)
            x.requires_grad_()
        y = model(x)
        if stage == stages - 1:
            loss = F.cross_entropy(y.flatten(0, 1), labels[rows].flatten())
            if mistake != "not_divided":
                loss = loss / PARTS
            loss.backward()
        else:
            dist.send(y.detach(), rank + 1)
            gradient = torch.empty_like(y)
            dist.recv(gradient, rank + 1)
            y.backward(gradient)
        if stage > 0:
            dist.send(x.grad, rank - 1)
    if world > 1:
        for p in model.parameters():
            dist.all_reduce(p.grad, group=groups[stage])
            p.grad /= replicas
    square = sum(p.grad.square().sum() for p in model.parameters())
    dist.all_reduce(square)
    for p in model.parameters():
        p.grad.mul_(0.05 / ((square / replicas).sqrt() + 1e-6))
    optimizer.step()
