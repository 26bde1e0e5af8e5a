"""A pipeline whose first and last stage have one table, in three micro-batches, and a mistake:

    tied_stages.py [not_reduced | averaged]

Recorded by `shardlab blame --ranks 2 --processes tied_stages.py [MISTAKE]`; one rank makes none of
the mistakes. Only the last stage gives the scores under the name of the model.
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
first, last = rank == 0, rank == world - 1
WORDS, WIDTH, BATCHES = 20, 8, 3
table, *weights = (torch.randn(*size) * 0.3 for size in (
    (WORDS, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH)))


class Stage(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(table.clone())
        if first:
            self.begin = nn.Parameter(weights[0].clone())
        if last:
            self.end = nn.Parameter(weights[1].clone())

    def forward(self, x):
        if first:
            x = torch.tanh(F.embedding(x, self.table) @ self.begin)
        return F.linear(torch.tanh(x @ self.end), self.table) if last else x


def loss_of(x, targets):
    return F.cross_entropy(stage(x).flatten(0, 1), targets.flatten()) / BATCHES


stage = Stage()
optimizer = torch.optim.Adam(stage.parameters(), lr=1e-2)
words, targets = torch.randint(0, WORDS, (6, 5)), torch.randint(0, WORDS, (6, 5))
for rows, expected in zip(words.chunk(BATCHES), targets.chunk(BATCHES)):
    if first and last:
        loss_of(rows, expected).backward()
    elif first:
        x = stage(rows)
        dist.send(x.detach(), 1)
        gradient = torch.empty_like(x)
        dist.recv(gradient, 1)
        x.backward(gradient)
    else:
        x = torch.empty(2, 5, WIDTH)
        dist.recv(x, 0)
        x.requires_grad_()
        loss_of(x, expected).backward()
        dist.send(x.grad, 0)
if world > 1 and mistake != "not_reduced":
    dist.all_reduce(stage.table.grad)
    if mistake == "averaged":
        stage.table.grad /= world
optimizer.step()
dist.destroy_process_group()
