"""Attention whose keys go around a ring of ranks: a step for each rank, one on one rank.

    ring.py [not_rescaled]

Recorded by `shardlab blame --ranks 2 --processes ring.py [not_rescaled]`.
"""

import math
import sys

import torch
import torch.distributed as dist
import torch.nn as nn


def ring_pass(tensors, rank, world):
    received = [torch.empty(t.shape, dtype=t.dtype) for t in tensors]
    ops = []
    for t, r in zip(tensors, received):
        ops.append(dist.P2POp(dist.isend, t.contiguous(), (rank + 1) % world))
        ops.append(dist.P2POp(dist.irecv, r, (rank - 1) % world))
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return received


class RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        rank, world = dist.get_rank(), dist.get_world_size()
        scale = 1 / math.sqrt(q.shape[-1])
        n = q.shape[-2]
        out = torch.zeros_like(q)
        lse = torch.full(q.shape[:-1], -float("inf"))
        kk, vv = k, v
        rows = rank * n + torch.arange(n)
        for step in range(world):
            source = (rank - step) % world
            cols = source * n + torch.arange(n)
            scores = q @ kk.transpose(-1, -2) * scale
            scores = scores.masked_fill(cols[None, :] > rows[:, None], -1e30)
            block_lse = torch.logsumexp(scores, -1)
            new = torch.logaddexp(lse, block_lse)
            before = out if len(sys.argv) > 1 else out * (lse - new).exp().unsqueeze(-1)
            out = before + (scores - new.unsqueeze(-1)).exp() @ vv
            lse = new
            if world > 1:
                kk, vv = ring_pass([kk, vv], rank, world)
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, lse = ctx.saved_tensors
        rank, world = dist.get_rank(), dist.get_world_size()
        scale = 1 / math.sqrt(q.shape[-1])
        n = q.shape[-2]
        rows = rank * n + torch.arange(n)
        delta = (grad * out).sum(-1, keepdim=True)
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        kk, vv = k, v
        for step in range(world):
            source = (rank - step) % world
            cols = source * n + torch.arange(n)
            scores = (q @ kk.mT * scale).masked_fill(cols[None, :] > rows[:, None], -1e30)
            p = (scores - lse.unsqueeze(-1)).exp()
            dv = dv + p.transpose(-1, -2) @ grad
            ds = p * (grad @ vv.transpose(-1, -2) - delta) * scale
            dq = dq + ds @ kk
            dk = dk + ds.transpose(-1, -2) @ q
            if world > 1:
                kk, vv, dk, dv = ring_pass([kk, vv, dk, dv], rank, world)
        return dq, dk, dv


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        return self.out(RingAttention.apply(q, k, v).transpose(1, 2).reshape(b, n, d))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(3)
    model = Attention(8, 2)
    x, y = torch.randn(2, 8, 8), torch.randn(2, 8, 8)
    local = slice(rank * 8 // world, (rank + 1) * 8 // world)
    opt = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(1):
        opt.zero_grad()
        loss = (model(x[:, local]) - y[:, local]).square().sum() / y.numel()
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
        opt.step()


main()
