"""A vocabulary over ranks, tied to the scores that are gathered, in two micro-batches, with an
average of the weights behind the step, and a mistake:

    tied.py [MISTAKE]

copy_not_reduced, first_piece, scaled_piece, words_not_reduced, down_not_reduced, bias_of_each_rank,
average_by_rank

Recorded by `shardlab blame --ranks 2 --processes tied.py [MISTAKE]`; one rank makes none of the
mistakes. Ranks count words from their own first one on, which are no values of the whole model.
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
WORDS, WIDTH, HIDDEN = 24, 8, 16


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        if mistake != "copy_not_reduced":
            dist.all_reduce(gradient)
        return gradient


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        parts = [torch.empty_like(x) for _ in range(world)]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts, -1)

    @staticmethod
    def backward(ctx, gradient):
        piece = gradient.chunk(world, -1)[0 if mistake == "first_piece" else rank]
        return piece * world if mistake == "scaled_piece" else piece.contiguous()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        words, hidden = WORDS // world, HIDDEN // world
        self.first, self.count = rank * words, words
        table, up, down = (torch.randn(*size) * 0.3 for size in (
            (WORDS, WIDTH), (HIDDEN, WIDTH), (WIDTH, HIDDEN)))
        self.table = nn.Parameter(table[self.first:self.first + words].clone())
        self.up = nn.Parameter(up.chunk(world)[rank].clone())
        self.down = nn.Parameter(down[:, rank * hidden:(rank + 1) * hidden].clone())
        self.bias = nn.Parameter(torch.randn(WIDTH) * 0.1)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, words):
        own = words - self.first
        others = (own < 0) | (own >= self.count)
        x = F.embedding(own.clamp(0, self.count - 1), self.table)
        x = x.masked_fill(others.unsqueeze(-1), 0.0)
        x = x if mistake == "words_not_reduced" else Reduce.apply(x)
        y = F.gelu(F.linear(Copy.apply(self.norm(x)), self.up))
        y = F.linear(y, self.down)
        if mistake == "bias_of_each_rank":
            y = Reduce.apply(y + self.bias)
        else:
            y = y if mistake == "down_not_reduced" else Reduce.apply(y)
            y = y + self.bias
        return Gather.apply(F.linear(Copy.apply(x + y), self.table))


model = Model()
averages = [p.detach().clone() for p in model.parameters()]
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
words = torch.randint(0, WORDS, (4, 6))
for rows in words.chunk(2):
    scores = model(rows[:, :-1])
    loss = F.cross_entropy(scores.flatten(0, 1), rows[:, 1:].flatten()) / 2
    loss.backward()
optimizer.step()
with torch.no_grad():
    for average, p in zip(averages, model.parameters()):
        kept = 0.9 - 0.05 * (rank if mistake == "average_by_rank" else 0)
        average.mul_(kept).add_(p, alpha=1 - kept)
dist.destroy_process_group()
