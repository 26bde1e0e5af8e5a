"""Two stages in four micro-batches, each forward followed by a backward, and a mistake:

    sent.py [not_divided]

Recorded by `shardlab blame --ranks 2 --processes sent.py [MISTAKE]`; one rank makes no mistake.
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mistake = sys.argv[1] if len(sys.argv) > 1 and world > 1 else ""
torch.manual_seed(0)
layers = [nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 6)) for _ in range(4)]
head = nn.Linear(6, 3)
first, last = rank == 0, rank == world - 1
own = range(rank * 4 // world, (rank + 1) * 4 // world)
stage = nn.ModuleDict({str(i): layers[i] for i in own})
if last:
    stage["head"] = head
rows, labels = torch.randn(8, 6).chunk(4), torch.randint(0, 3, (8,)).chunk(4)
optimizer = torch.optim.AdamW(stage.parameters(), lr=0.01)
works = []


def forward(batch):
    x = rows[batch]
    if not first:
        x = torch.empty(2, 6)
        dist.recv(x, rank - 1)
        x.requires_grad_()
    begin = x
    for name, layer in stage.items():
        if name != "head":
            x = x + layer(x)
    if not last:
        works.append((dist.isend(x.detach(), rank + 1), x))
        return begin, x
    loss = F.cross_entropy(head(x), labels[batch])
    return begin, loss if mistake == "not_divided" else loss / len(rows)


def backward(begin, end):
    gradient = None
    if not last:
        gradient = torch.empty_like(end)
        dist.recv(gradient, rank + 1)
    end.backward(gradient)
    if not first:
        dist.send(begin.grad, rank - 1)


ahead = world - 1 - rank
flights = [forward(batch) for batch in range(ahead)]
for batch in range(ahead, len(rows)):
    flights.append(forward(batch))
    backward(*flights.pop(0))
for flight in flights:
    backward(*flight)
for work, _ in works:
    work.wait()
optimizer.step()
dist.destroy_process_group()
