"""Tokens go to the ranks of their experts and back, uneven, and a mistake:

    exchanged.py [not_divided | gate_not_reduced | not_ordered]

Recorded by `shardlab blame --ranks 2 --processes exchanged.py [MISTAKE]`; one rank makes none of
the mistakes. An expert's gradient has the terms of all tokens: twice A's before the division.
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
WIDTH, HIDDEN, EXPERTS, TOKENS = 6, 12, 4, 16
OWN = EXPERTS // world


def exchanged(x, received, sent):
    out = torch.empty(sum(received), x.shape[1])
    dist.all_to_all_single(out, x.contiguous(), received, sent)
    return out


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, received, sent):
        ctx.counts = sent, received
        return exchanged(x, received, sent)

    @staticmethod
    def backward(ctx, gradient):
        return exchanged(gradient, *ctx.counts), None, None


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, EXPERTS, bias=False)
        up, down = torch.randn(EXPERTS, WIDTH, HIDDEN), torch.randn(EXPERTS, HIDDEN, WIDTH)
        self.up = nn.Parameter(0.3 * up.chunk(world)[rank])
        self.down = nn.Parameter(0.3 * down.chunk(world)[rank])

    def forward(self, x):
        weight, expert = self.gate(x).softmax(-1).max(-1)
        order = expert.argsort(stable=True)
        counts = torch.bincount(expert, minlength=EXPERTS)
        theirs = torch.empty_like(counts)
        dist.all_to_all_single(theirs, counts)
        sent, received = (one.view(world, OWN).sum(1).tolist() for one in (counts, theirs))
        h = Exchange.apply(x[order], received, sent)
        own = torch.cat([torch.arange(OWN).repeat_interleave(one)
                         for one in theirs.view(world, OWN)])
        y = torch.zeros_like(h)
        for i in range(OWN):
            rows = (own == i).nonzero().squeeze(1)
            y = y.index_add(0, rows, F.gelu(h[rows] @ self.up[i]) @ self.down[i])
        y = Exchange.apply(y, sent, received)
        if mistake != "not_ordered":
            y = torch.zeros_like(x).index_copy(0, order, y)
        return x + y * weight.unsqueeze(-1)


model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Experts(), nn.Linear(WIDTH, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, targets = (torch.randn(TOKENS, n).chunk(world)[rank] for n in (WIDTH, 1))
loss = F.mse_loss(model(x), targets)
loss.backward()
for name, p in model.named_parameters():
    of_expert = name in ("1.up", "1.down")
    if not of_expert and not ("gate" in name and mistake == "gate_not_reduced"):
        dist.all_reduce(p.grad)
    if not of_expert or mistake != "not_divided":
        p.grad /= world
optimizer.step()
dist.destroy_process_group()
