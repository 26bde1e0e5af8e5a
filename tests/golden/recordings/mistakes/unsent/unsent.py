"""Each rank makes the step of the parameters that it owns, by hand, and sends them to the others.

    unsent.py [not_sent]

Recorded by `shardlab blame --ranks 2 --processes unsent.py [not_sent]`: on the other ranks no call
writes to a parameter that is not sent, and the model is gone when the recording ends.
"""

import sys

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mistake = sys.argv[1] if len(sys.argv) > 1 and world > 1 else ""


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    parameters = list(model.parameters())
    x, y = (t.tensor_split(world)[rank] for t in (torch.randn(6, 8), torch.randn(6, 4)))
    (model(x) - y).square().mean().backward()
    for p in parameters:
        dist.all_reduce(p.grad)
        p.grad /= world
    for p in parameters[rank::world]:
        with torch.no_grad():
            p -= 0.1 * p.grad
    for i, p in enumerate(parameters):
        if mistake != "not_sent":
            dist.broadcast(p.data, i % world)


main()
dist.destroy_process_group()
