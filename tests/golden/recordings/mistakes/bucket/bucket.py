"""Gradients are added up in one bucket and copied back, then clipped, and a mistake:

    bucket.py [bound_times_ranks | not_divided]

Recorded by `shardlab blame --ranks 2 --processes bucket.py [MISTAKE]`; one rank makes none of the
mistakes. Before the copy gradients are terms, and nothing adds them up where they are.
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
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
x, y = torch.randn(16, 8).chunk(world)[rank], torch.randint(0, 4, (16,)).chunk(world)[rank]
for rows, targets in zip(x.chunk(2), y.chunk(2)):
    loss = F.cross_entropy(model(rows), targets) / 2
    loss.backward()
bucket = torch.cat([p.grad.flatten() for p in model.parameters()])
dist.all_reduce(bucket)
if mistake != "not_divided":
    bucket /= world
begin = 0
for p in model.parameters():
    p.grad.copy_(bucket[begin:begin + p.numel()].view_as(p))
    begin += p.numel()
nn.utils.clip_grad_norm_(model.parameters(), 0.5 * (world if mistake == "bound_times_ranks" else 1))
optimizer.step()
print(loss.item())
dist.destroy_process_group()
