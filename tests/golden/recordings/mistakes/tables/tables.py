"""Tables of embeddings on their own ranks, dense layers on all (DLRM), gradients clipped by hand.

    tables.py [MISTAKE]

other_labels, dense_divided, divided_late

Recorded by `shardlab blame --ranks 3 --processes tables.py [MISTAKE]`; one rank makes none of the
mistakes. Rows and tables are cut unevenly.
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mistake = sys.argv[1] if len(sys.argv) > 1 and world > 1 else ""
torch.manual_seed(5)
COUNT, WIDTH, TABLES, WORDS = 11, 4, 5, 7
rows_of = torch.arange(COUNT).tensor_split(world)
rows = rows_of[rank]
tables_of = [[t for t in range(TABLES) if t % world == r] for r in range(world)]


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, send, receive):
        ctx.sizes = send, receive
        out = x.new_empty(sum(receive), WIDTH)
        dist.all_to_all_single(out, x.contiguous(), receive, send)
        return out

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.sizes
        out = gradient.new_empty(sum(send), WIDTH)
        dist.all_to_all_single(out, gradient.contiguous(), send, receive)
        return out, None, None


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        weights = [torch.randn(WORDS, WIDTH) * 0.3 for _ in range(TABLES)]
        self.tables = nn.ModuleDict(
            {f"t{t}": nn.Embedding(WORDS, WIDTH, _weight=weights[t]) for t in tables_of[rank]}
        )
        self.bottom = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, WIDTH))
        self.top = nn.Linear(WIDTH + TABLES * (TABLES + 1) // 2, 1)

    def looked_up(self, words):
        found = torch.stack([self.tables[f"t{t}"](words[:, t]) for t in tables_of[rank]], 1)
        if world == 1:
            return found
        send = [len(r) * len(tables_of[rank]) for r in rows_of]
        receive = [len(rows) * len(t) for t in tables_of]
        got = Exchange.apply(found.reshape(-1, WIDTH), send, receive).split(receive)
        found = torch.cat([one.view(len(rows), -1, WIDTH) for one in got], 1)
        return found[:, torch.tensor(sum(tables_of, [])).argsort()]

    def forward(self, dense, words):
        x = self.bottom(dense[rows])
        every = torch.cat([x.unsqueeze(1), self.looked_up(words)], 1)
        products = every @ every.transpose(1, 2)
        i, j = torch.tril_indices(TABLES + 1, TABLES + 1, -1)
        return self.top(torch.cat([x, products[:, i, j]], 1)).squeeze(1)


model = Model()
dense, words = torch.randn(COUNT, 3), torch.randint(0, WORDS, (COUNT, TABLES))
labels = torch.rand(COUNT)
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
of_tables = list(model.tables.parameters())
of_all = [*model.bottom.parameters(), *model.top.parameters()]
for step in range(2):
    optimizer.zero_grad()
    logits = model(dense, words)
    own = rows - 1 if mistake == "other_labels" and rank > 0 else rows
    loss = F.binary_cross_entropy_with_logits(logits, labels[own], reduction="sum") / COUNT
    loss.backward()
    for p in of_all:
        dist.all_reduce(p.grad)
        if mistake == "dense_divided":
            p.grad /= world
    square = sum(p.grad.square().sum() for p in of_tables)
    dist.all_reduce(square)
    square = square + sum(p.grad.square().sum() for p in of_all)
    for p in model.parameters():
        p.grad.mul_(0.05 / (square.sqrt() + 1e-6))
        if mistake == "divided_late":
            p.grad /= world
    optimizer.step()
