"""A contrastive loss on features of all ranks, a running center of them, and an optimizer that uses
gradients as its own memory where a rank owns the parameter.

    features.py [MISTAKE]

own_gradient, no_gradient, center_summed

Recorded by `shardlab blame --ranks 3 --processes features.py [MISTAKE]`; one rank makes none of the
mistakes. The gathers of counts and of centers need no gradient.
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mistake = sys.argv[1] if len(sys.argv) > 1 and world > 1 else ""


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        parts = [torch.empty_like(x) for _ in range(world)]
        dist.all_gather(parts, x)
        return tuple(parts)

    @staticmethod
    def backward(ctx, *gradients):
        gradients = torch.stack(gradients)
        if mistake != "own_gradient":
            dist.all_reduce(gradients)
        return gradients[rank]


def gathered(x):
    if mistake == "no_gradient":
        parts = [torch.empty_like(x) for _ in range(world)]
        dist.all_gather(parts, x)
        return torch.cat([*parts[:rank], x, *parts[rank + 1 :]])
    return torch.cat(Gather.apply(x.contiguous()))


class Center(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("center", torch.full((width,), 0.1))

    def forward(self, x):
        with torch.no_grad():
            total, parts = x.sum(0), [torch.empty(1) for _ in range(world)]
            dist.all_reduce(total)
            dist.all_gather(parts, torch.tensor([float(x.shape[0])]))
            count = x.shape[0] if mistake == "center_summed" else torch.cat(parts).sum()
            centered = x - self.center
            self.center = self.center * 0.9 + total / count * 0.1
        return centered


class Owners(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self):
        for i, own in enumerate(self.param_groups[0]["params"]):
            if i % world == rank:
                own.grad.mul_(0.5).sign_()
                own.add_(own.grad, alpha=-0.01)
            dist.broadcast(own, i % world)


torch.manual_seed(4)
left, right, center = nn.Linear(6, 5), nn.Linear(4, 5), Center(5)
model = nn.ModuleList([left, right])
optimizer = Owners(model.parameters(), {})
x, y = (part.chunk(world)[rank] for part in (torch.randn(12, 6), torch.randn(12, 4)))
a, b = F.normalize(left(x), dim=-1), F.normalize(right(y), dim=-1)
labels = torch.arange(rank * len(x), (rank + 1) * len(x))
targets = center(b.detach()).square().mean(1)
loss = F.cross_entropy(4 * a @ gathered(b).T, labels) + (a.square().mean(1) * targets).mean()
loss.backward()
for own in model.parameters():
    dist.all_reduce(own.grad)
    own.grad /= world
optimizer.step()
dist.destroy_process_group()
