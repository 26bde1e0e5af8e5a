"""Gradients that hooks add up, the model and the rows from rank 0, and a mistake:

    hooked.py [not_sent | not_divided]

Recorded by `shardlab blame --ranks 2 --processes hooked.py [MISTAKE]`; one rank makes no mistake.
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mistake = sys.argv[1] if len(sys.argv) > 1 and world > 1 else ""
torch.manual_seed(rank)
net = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.SiLU(), nn.Linear(8, 2))
for name, parameter in net.named_parameters():
    if mistake != "not_sent" or name != "3.weight":
        dist.broadcast(parameter.data, 0)
torch.manual_seed(5)
all_rows, all_labels = torch.randn(12, 6), torch.randint(0, 2, (12,))
rows, labels = torch.empty(12 // world, 6), torch.empty(12 // world, dtype=torch.long)
dist.scatter(rows, list(all_rows.chunk(world)) if rank == 0 else None, 0)
dist.scatter(labels, list(all_labels.chunk(world)) if rank == 0 else None, 0)
works = []


def add_up(parameter):
    if mistake != "not_divided":
        parameter.grad.div_(world)
    works.append(dist.all_reduce(parameter.grad, async_op=True))


for parameter in net.parameters():
    parameter.register_post_accumulate_grad_hook(add_up)
optimizer = torch.optim.RMSprop(net.parameters(), lr=0.01)
loss = F.cross_entropy(net(rows), labels)
loss.backward()
for work in works:
    work.wait()
nn.utils.clip_grad_norm_(net.parameters(), 0.1)
optimizer.step()
dist.destroy_process_group()
