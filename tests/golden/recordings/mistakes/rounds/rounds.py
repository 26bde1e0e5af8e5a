"""Two stages of two replicas: each has rows of its own in micro-batches, of which the next goes
forward while the last one comes back. Gradients are clipped by a norm of all stages.

    rounds.py [MISTAKE]

norm_of_own, not_kept, drawn_by_replica

Recorded by `shardlab blame --ranks 4 --processes rounds.py [MISTAKE]`; one rank makes none of the
mistakes.
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

dist.init_process_group("gloo")
mistake = sys.argv[1] if len(sys.argv) > 1 else ""
rank, world = dist.get_rank(), dist.get_world_size()
stages = 2 if world > 1 else 1
replicas = world // stages
stage, replica = rank % stages, rank // stages
groups = [dist.new_group([r * stages + s for r in range(replicas)]) for s in range(stages)]
pipelines = [dist.new_group([r * stages + s for s in range(stages)]) for r in range(replicas)]


class Stage(nn.Module):
    def __init__(self):
        super().__init__()
        own = range(stage * 4 // stages, (stage + 1) * 4 // stages)
        self.layers = nn.ModuleDict({str(i): self.layer(i) for i in own})
        if stage == stages - 1:
            self.head = nn.Linear(6, 5)

    def layer(self, i):
        torch.manual_seed(i + 100 * (replica if mistake == "drawn_by_replica" else 0))
        return nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 6), nn.Tanh())

    def forward(self, x):
        for layer in self.layers.values():
            x = layer(x) if mistake == "not_kept" and stage == 1 else x + layer(x)
        return self.head(x) if stage == stages - 1 else x


model = Stage()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
generator = torch.Generator().manual_seed(1)
x = torch.randn(12, 6, generator=generator).chunk(replicas)[replica].chunk(3)
y = torch.randint(0, 5, (12,), generator=generator).chunk(replicas)[replica].chunk(3)
taken, given, losses, sends = [], [], [], []


def forward(i):
    rows = x[i]
    if stage > 0:
        rows = torch.empty(x[i].shape)
        dist.recv(rows, rank - 1)
        rows.requires_grad_()
    result = model(rows)
    if stage == stages - 1:
        result = F.cross_entropy(result, y[i]) / 3
        losses.append(result.detach())
    else:
        sends.append(dist.isend(result.detach(), rank + 1))
    taken.append(rows)
    given.append(result)


def backward(i):
    if stage == stages - 1:
        given[i].backward()
    else:
        gradient = torch.empty(given[i].shape)
        dist.recv(gradient, rank + 1)
        given[i].backward(gradient)
    if stage > 0:
        sends.append(dist.isend(taken[i].grad, rank - 1))


ahead = stages - 1 - stage
for i in range(ahead):
    forward(i)
for i in range(3):
    if i + ahead < 3:
        forward(i + ahead)
    backward(i)
for send in sends:
    send.wait()
for parameter in model.parameters():
    dist.all_reduce(parameter.grad, group=groups[stage])
    parameter.grad /= replicas
total = sum(parameter.grad.square().sum() for parameter in model.parameters())
if mistake != "norm_of_own":
    dist.all_reduce(total, group=pipelines[replica])
factor = (0.1 / (total.sqrt() + 1e-6)).clamp(max=1)
for parameter in model.parameters():
    parameter.grad.mul_(factor)
optimizer.step()
print(sum(losses))
