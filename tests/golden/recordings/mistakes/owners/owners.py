"""Each rank makes the step of the parameters that it owns, and sends them to the others behind it.

    owners.py [MISTAKE]

not_reduced, one_not_sent, sent_by_rank_0, bound_by_rank

Recorded by `shardlab blame --ranks 3 --processes owners.py [MISTAKE]`; one rank makes none of the
mistakes. What a reduce leaves on ranks that own nothing of it is nobody's value.
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mistake = sys.argv[1] if len(sys.argv) > 1 and world > 1 else ""
torch.manual_seed(3)
model = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3))
x, targets = torch.randn(11, 6), torch.randn(11, 3)
parameters = list(model.parameters())
optimizer = torch.optim.SGD([p for i, p in enumerate(parameters) if i % world == rank], lr=0.1)
rows = torch.arange(11).tensor_split(world)[rank]
for step in range(2):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x[rows]), targets[rows], reduction="sum")
    loss.backward()
    for i, p in enumerate(parameters):
        if not (mistake == "not_reduced" and i == 2):
            dist.reduce(p.grad, i % world)
        p.grad /= 33
    optimizer.step()
    for i, p in enumerate(parameters):
        if mistake == "one_not_sent" and i == 1:
            continue
        dist.broadcast(p.data, 0 if mistake == "sent_by_rank_0" else i % world)
    bound = 0.3 + 0.1 * (rank if mistake == "bound_by_rank" else 0)
    with torch.no_grad():
        for p in parameters:
            p.clamp_(-bound, bound)
    total = loss.detach().clone()
    dist.all_reduce(total)  # shown by one rank, and read by nobody
    if rank == 0:
        print("step", step, total.item())
dist.destroy_process_group()
