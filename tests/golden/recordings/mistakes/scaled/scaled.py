"""Rows that ranks cannot share, a scaled loss, gradients in one buffer, and a mistake:

    scaled.py [too_large]

Recorded by `shardlab blame --ranks 2 --processes scaled.py [MISTAKE]`; one rank makes no mistake.
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
SCALE = 1024.0
net = nn.Sequential(nn.Linear(5, 9), nn.GELU(), nn.Linear(9, 4))
optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
rows, labels = torch.randn(11, 5), torch.randint(0, 4, (11,))
labels[3] = -100
own = torch.tensor_split(torch.arange(11), world)[rank]
count = (labels[own] != -100).sum()
loss = F.cross_entropy(net(rows[own]), labels[own], reduction="sum", ignore_index=-100)
dist.all_reduce(count)
(loss * SCALE).backward()
gradients = [parameter.grad for parameter in net.parameters()]
buffer = torch._utils._flatten_dense_tensors(gradients)
dist.all_reduce(buffer)
buffer /= SCALE * count
if mistake == "too_large":
    buffer *= 2
for gradient, part in zip(gradients, torch._utils._unflatten_dense_tensors(buffer, gradients)):
    gradient.copy_(part)
bound = (1.0 / (buffer.norm() + 1e-6)).clamp(max=1.0)
for gradient in gradients:
    gradient.mul_(bound)
optimizer.step()
dist.destroy_process_group()
