"""Plain parameters, two micro-batches on each rank, gradients that are averaged and clipped, and a
mistake:

    micro_batches.py [not_divided]

Recorded by `shardlab record --ranks 2 --processes micro_batches.py [MISTAKE]`; one rank makes no
mistake.
"""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mistake = sys.argv[1] if len(sys.argv) > 1 and world > 1 else ""
torch.manual_seed(0)
parameters = [torch.randn(5, 5).requires_grad_() for _ in range(3)]
optimizer = torch.optim.Adam(parameters, lr=0.01, foreach=True)
x, target = (torch.randn(16, 5).chunk(world)[rank] for _ in range(2))
for own, wanted in zip(x.chunk(2), target.chunk(2)):
    for parameter in parameters:
        own = own + torch.tanh(own @ parameter)
    loss = (own - wanted).square().mean() / (1 if mistake == "not_divided" else 2)
    loss.backward()
for parameter in parameters:
    dist.all_reduce(parameter.grad)
    parameter.grad /= world
norm = sum(parameter.grad.square().sum() for parameter in parameters).sqrt()
for parameter in parameters:
    parameter.grad.mul_(torch.clamp(0.3 / (norm + 0.01), max=1))
optimizer.step()
dist.destroy_process_group()
