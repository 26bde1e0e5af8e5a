"""Two stages of plain parameters, with messages and a step of their own, and a mistake:

    stages_of_leaves.py [half | own]

Recorded by `shardlab record --ranks 2 --processes stages_of_leaves.py [MISTAKE]`; one rank has both
stages and makes no mistake.
"""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mistake = sys.argv[1] if len(sys.argv) > 1 and world > 1 else ""
torch.manual_seed(0)
weights = [torch.randn(6, 6) / 6**0.5 for _ in range(4)]
x, target = torch.randn(4, 6), torch.randn(4, 6)
mine = weights if world == 1 else weights[2 * rank : 2 * rank + 2]
for weight in mine:
    weight.requires_grad_()
optimizer = torch.optim.SGD(mine, lr=0.1, momentum=0.9)


def stage(h):
    for weight in mine:
        h = torch.tanh(h @ weight)
    return h


if rank == 0 and world > 1:
    h = stage(x)
    dist.send(h.detach(), 1)
    gradient = torch.empty_like(h)
    dist.recv(gradient, 1)
    h.backward(gradient / 2 if mistake == "half" else gradient)
else:
    h = x
    if world > 1:
        h = torch.empty(4, 6)
        dist.recv(h, 0)
        h.requires_grad_()
    (stage(h) - target).square().sum().backward()
    if world > 1:
        dist.send(h.grad, 0)
    if mistake == "own":
        mine[0].grad *= 2
optimizer.step()
dist.destroy_process_group()
