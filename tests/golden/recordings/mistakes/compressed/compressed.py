"""Gradients of low rank, as PowerSGD sends them: two thin factors are averaged over ranks.

    compressed.py [MISTAKE]

factor_of_rank, factor_summed (which an orthonormal basis does not show), other_factor_summed

Recorded by `shardlab blame --ranks 3 --processes compressed.py [MISTAKE]`; one rank makes none of
the mistakes.
"""

import sys

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mistake = sys.argv[1] if len(sys.argv) > 1 and world > 1 else ""
own = slice(rank * 6 // world, (rank + 1) * 6 // world)


def average(x, divide=True):
    dist.all_reduce(x)
    return x / world if divide else x * 1


torch.manual_seed(7)
model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3, bias=False))
x, y = torch.randn(6, 5), torch.randn(6, 3)
thin = {name: torch.randn(p.shape[1], 2) for name, p in model.named_parameters() if p.dim() == 2}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = (model(x[own]) - y[own]).square().mean()
loss.backward()
for name, p in model.named_parameters():
    if name not in thin:
        p.grad.copy_(average(p.grad))
        continue
    left = p.grad @ thin[name]
    if mistake != "factor_of_rank" or name != "0.weight":
        left = average(left, mistake != "factor_summed")
    basis, _ = torch.linalg.qr(left)
    right = average(p.grad.T @ basis, mistake != "other_factor_summed" or name != "0.weight")
    p.grad.copy_(basis @ right.T)
shown = average(loss.detach().clone())  # printed by one rank, and read by nobody
optimizer.step()
if rank == 0:
    print(shown.item())
dist.destroy_process_group()
