"""Convolutions over a line that is cut over ranks, with messages between neighbors, and a mistake:

    halo.py [not_sent_back]

Recorded by `shardlab blame --ranks 2 --processes halo.py [MISTAKE]`; one rank makes no mistake.
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


def exchanged(left, right):
    """The last column of the rank before, and the first of the next one."""
    before, after = torch.zeros_like(left), torch.zeros_like(right)
    messages = []
    for peer, sent, received in ((rank - 1, left, before), (rank + 1, right, after)):
        if 0 <= peer < world:
            messages.append(dist.P2POp(dist.isend, sent.contiguous(), peer))
            messages.append(dist.P2POp(dist.irecv, received, peer))
    for work in dist.batch_isend_irecv(messages) if messages else []:
        work.wait()
    return before, after


class Halo(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        before, after = exchanged(x[:, :, :1], x[:, :, -1:])
        return torch.cat([before, x, after], 2)

    @staticmethod
    def backward(ctx, gradient):
        before, after = exchanged(gradient[:, :, :1], gradient[:, :, -1:])
        own = gradient[:, :, 1:-1].clone()
        if mistake != "not_sent_back":
            own[:, :, :1] += before
            own[:, :, -1:] += after
        return own


class Convolution(nn.Module):
    def __init__(self, channels, results):
        super().__init__()
        self.conv = nn.Conv1d(channels, results, 3)

    def forward(self, x):
        return self.conv(Halo.apply(x))


net = nn.Sequential(Convolution(2, 4), nn.Tanh(), Convolution(4, 4), nn.Tanh(), Convolution(4, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
lines, targets = torch.randn(3, 2, 16), torch.randn(3, 1, 16)
own = slice(rank * 16 // world, (rank + 1) * 16 // world)
loss = F.mse_loss(net(lines[:, :, own]), targets[:, :, own])
loss.backward()
for parameter in net.parameters():
    dist.all_reduce(parameter.grad)
    parameter.grad.div_(world)
optimizer.step()
dist.destroy_process_group()
