"""Ranks hold experts as modules, each under the names of the first ones: experts.0 of rank 1 is
A's experts.2.

    experts.py [not_reduced]

Recorded by `shardlab blame --ranks 2 --processes experts.py [not_reduced]`.
"""

import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, output_splits, input_splits):
        ctx.splits = (output_splits, input_splits)
        out = x.new_empty(sum(output_splits), x.shape[1])
        dist.all_to_all_single(out, x.contiguous(), output_splits, input_splits)
        return out

    @staticmethod
    def backward(ctx, grad):
        output_splits, input_splits = ctx.splits
        out = grad.new_empty(sum(input_splits), grad.shape[1])
        dist.all_to_all_single(out, grad.contiguous(), input_splits, output_splits)
        return out, None, None


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class MoE(nn.Module):
    def __init__(self, dim, experts):
        super().__init__()
        self.world, self.rank = dist.get_world_size(), dist.get_rank()
        self.num = experts
        self.local = experts // self.world
        self.router = nn.Linear(dim, experts, bias=False)
        every = [Expert(dim, 2 * dim) for _ in range(experts)]
        self.experts = nn.ModuleList(every[self.rank * self.local:(self.rank + 1) * self.local])

    def forward(self, x):
        probs = F.softmax(self.router(x), dim=-1)
        gate, index = probs.max(dim=-1)
        order = torch.argsort(index, stable=True)
        counts = torch.bincount(index, minlength=self.num)
        other = torch.empty_like(counts)
        dist.all_to_all_single(other, counts)
        in_splits = counts.view(self.world, -1).sum(1).tolist()
        out_splits = other.view(self.world, -1).sum(1).tolist()
        received = AllToAll.apply(x[order], out_splits, in_splits)
        ids = torch.arange(self.local).repeat(self.world).repeat_interleave(other)
        result = torch.zeros_like(received)
        for e, expert in enumerate(self.experts):
            rows = (ids == e).nonzero(as_tuple=True)[0]
            result = result.index_add(0, rows, expert(received[rows]))
        back = AllToAll.apply(result, in_splits, out_splits)
        y = torch.empty_like(back).index_copy(0, order, back)
        return y * gate.unsqueeze(-1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(6, 8)
        self.moe = MoE(8, 4)
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        h = torch.tanh(self.inp(x))
        return self.out(h + self.moe(h))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    mistake = world > 1 and len(sys.argv) > 1
    torch.manual_seed(31)
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    x, y = torch.randn(16, 6), torch.randn(16, 2)
    x, y = x.chunk(world)[rank], y.chunk(world)[rank]
    for _ in range(1):
        opt.zero_grad()
        loss = F.mse_loss(net(x), y) / world
        loss.backward()
        for name, p in net.named_parameters():
            if "moe" in name if mistake else "experts" in name:
                continue
            dist.all_reduce(p.grad)
        opt.step()


main()
