"""Gradients of bfloat16 in a data-parallel step by hand: much is rounding, and some is not.

    half.py [MISTAKE]

not_reduced, one_not_reduced, rate_by_rank

Recorded by `shardlab blame --ranks 3 --processes half.py [MISTAKE]`; one rank makes none of the
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
torch.manual_seed(2)
model = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
x, labels = torch.randn(24, 6), torch.randint(0, 4, (24,))
own = slice(rank * 24 // world, (rank + 1) * 24 // world)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with torch.autocast("cpu", torch.bfloat16):
    loss = F.cross_entropy(model(x[own]), labels[own])
loss.backward()
for name, p in model.named_parameters():
    left_out = mistake == "not_reduced" or (mistake, name) == ("one_not_reduced", "2.weight")
    if not left_out:
        dist.all_reduce(p.grad)
        p.grad /= world
shown = loss.detach().clone()
dist.all_reduce(shown)  # printed by one rank, and read by nobody
if mistake == "rate_by_rank":
    optimizer.param_groups[0]["lr"] *= 1 + 0.5 * rank
optimizer.step()
if rank == 0:
    print(shown.item() / world)
dist.destroy_process_group()
