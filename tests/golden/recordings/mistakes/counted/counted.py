"""A graph whose nodes are cut over ranks, some of them with a label, and a mistake:

    counted.py [own_mean]

Recorded by `shardlab blame --ranks 2 --processes counted.py [MISTAKE]`; one rank makes no mistake.
Ranks have different numbers of labels: an average of their means is no mean.
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
NODES = 12
own = slice(rank * NODES // world, (rank + 1) * NODES // world)


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        whole = x.new_empty(NODES, x.shape[1])
        dist.all_gather_into_tensor(whole, x.contiguous())
        return whole

    @staticmethod
    def backward(ctx, gradient):
        part = gradient.new_empty(NODES // world, gradient.shape[1])
        dist.reduce_scatter_tensor(part, gradient.contiguous())
        return part


class Layer(nn.Module):
    def __init__(self, width, results):
        super().__init__()
        self.others = nn.Linear(width, results, bias=False)
        self.own = nn.Linear(width, results)

    def forward(self, edges, x):
        degrees = edges.sum(1, keepdim=True).clamp(min=1)
        return edges @ Gather.apply(self.others(x)) / degrees + self.own(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = Layer(5, 8), Layer(8, 3)

    def forward(self, edges, x):
        return self.last(edges, F.relu(self.first(edges, x)))


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
nodes, labels = torch.randn(NODES, 5), torch.randint(0, 3, (NODES,))
edges = (torch.rand(NODES, NODES) < 0.4).float()
labeled = torch.rand(NODES) < 0.5
scores = net(edges[own], nodes[own])
losses = F.cross_entropy(scores, labels[own], reduction="none")[labeled[own]]
total, count = losses.sum(), labeled[own].sum()
if mistake == "own_mean":
    loss = total / count.clamp(min=1) / world
else:
    dist.all_reduce(count)
    loss = total / count
loss.backward()
for parameter in net.parameters():
    dist.all_reduce(parameter.grad)
optimizer.step()
dist.destroy_process_group()
