"""A model of which each rank runs a few layers, with messages between them; the table of words is
the head, too, so that its first and its last rank add up its gradients. Each rank has the whole
model and calls parts of it.

    stages.py [no_tie | no_mean | wrong_targets]

no_tie forgets the sum of the table's gradients, no_mean to divide the loss by the number of
microbatches, wrong_targets takes those of another microbatch. Recorded by `shardlab blame --ranks 3
--processes stages.py [MISTAKE]`; one rank makes none of the mistakes.
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

WORDS, WIDTH, ROWS, MICROBATCHES, LAYERS = 7, 4, 4, 2, 4
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mistake = sys.argv[1] if len(sys.argv) > 1 and world > 1 else ""
first, last = rank == 0, rank == world - 1


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.table.weight


torch.manual_seed(0)
model = Model()
mine = torch.arange(LAYERS).tensor_split(world)[rank].tolist()
words, targets = torch.randint(0, WORDS, (2, ROWS)).unbind()
ends = dist.new_group([0, world - 1]) if world > 1 else None
parameters = [p for i in mine for p in model.layers[i].parameters()]
if first or last:
    parameters.append(model.table.weight)
optimizer = torch.optim.SGD(parameters, lr=0.1)
kept = []
for i in range(MICROBATCHES):
    if first:
        x = model.table(words.chunk(MICROBATCHES)[i])
    else:
        x = torch.empty(ROWS // MICROBATCHES, WIDTH)
        dist.recv(x, rank - 1)
        x.requires_grad_()
    y = x
    for layer in mine:
        y = model.layers[layer](y)
    size = y.detach().norm()  # read by nobody
    if last:
        other = (i + 1) % MICROBATCHES if mistake == "wrong_targets" else i
        y = F.cross_entropy(model.head(y), targets.chunk(MICROBATCHES)[other])
        if mistake != "no_mean":
            y = y / MICROBATCHES
    else:
        dist.send(y.detach(), rank + 1)
    kept.append((x, y))
for x, y in kept:
    if last:
        y.backward()
    else:
        gradient = torch.empty_like(y)
        dist.recv(gradient, rank + 1)
        y.backward(gradient)
    if not first:
        dist.send(x.grad, rank - 1)
if ends is not None and (first or last) and mistake != "no_tie":
    dist.all_reduce(model.table.weight.grad, group=ends)
optimizer.step()
dist.destroy_process_group()
