"""All parameters in one vector, of which each rank makes a piece of the step by hand.

    flat.py [MISTAKE]

not_added, norm_of_own, one_not_written

Recorded by `shardlab blame --ranks 3 --processes flat.py [MISTAKE]`; one rank makes none of the
mistakes. The last piece has padding.
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
model = nn.Sequential(nn.Linear(6, 9), nn.LayerNorm(9), nn.SiLU(), nn.Linear(9, 4))
parameters = list(model.parameters())
count = sum(p.numel() for p in parameters)
size = -(-count // world)
padding = torch.zeros(size * world - count)
own = torch.cat([*(p.detach().flatten() for p in parameters), padding]).chunk(world)[rank].clone()
x, targets = torch.randn(11, 6), torch.randint(0, 4, (11,))
rows = torch.arange(11).tensor_split(world)[rank]
for step in range(2):
    model.zero_grad()
    loss = F.cross_entropy(model(x[rows]), targets[rows], reduction="sum") / 11
    loss.backward()
    gradient = torch.cat([*(p.grad.flatten() for p in parameters), padding])
    if mistake != "not_added":
        dist.all_reduce(gradient)
    gradient = gradient.chunk(world)[rank].clone()
    norm = gradient.square().sum()
    if mistake != "norm_of_own":
        dist.all_reduce(norm)
    own -= 0.1 * gradient * (2 / (norm.sqrt() + 1e-6))
    pieces = [torch.empty(size) for _ in range(world)]
    dist.all_gather(pieces, own)
    whole = torch.cat(pieces)[:count]
    with torch.no_grad():
        for p, piece in zip(parameters, whole.split([p.numel() for p in parameters])):
            if not (mistake == "one_not_written" and p is parameters[-1]):
                p.copy_(piece.view_as(p))
