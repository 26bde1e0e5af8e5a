"""LAMB by hand on pieces of weights, whose norms are sums over ranks.

    lamb.py [own_norm]

Recorded by `shardlab blame --ranks 2 --processes lamb.py [own_norm]`.
"""

import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class Lamb(torch.optim.Optimizer):
    def __init__(self, params, lr=0.01, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (b1, b2), eps = group["betas"], group["eps"]
            for p in group["params"]:
                s = self.state[p]
                if not s:
                    s["t"], s["m"], s["v"] = 0, torch.zeros_like(p), torch.zeros_like(p)
                s["t"] += 1
                s["m"].mul_(b1).add_(p.grad, alpha=1 - b1)
                s["v"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                update = s["m"] / (1 - b1 ** s["t"]) / ((s["v"] / (1 - b2 ** s["t"])).sqrt() + eps)
                update = update + group["weight_decay"] * p
                norms = torch.stack([p.pow(2).sum(), update.pow(2).sum()])
                if not mistake:
                    dist.all_reduce(norms)
                w, u = norms.sqrt()
                ratio = torch.where((w > 0) & (u > 0), w / u, torch.ones(()))
                p.add_(update * ratio, alpha=-group["lr"])


class ColumnLinear(nn.Module):
    def __init__(self, fin, fout):
        super().__init__()
        r, w = dist.get_rank(), dist.get_world_size()
        full = torch.randn(fout, fin) / fin ** 0.5
        self.weight = nn.Parameter(full.chunk(w, 0)[r].clone())

    def forward(self, x):
        return x @ self.weight.t()


class RowLinear(nn.Module):
    def __init__(self, fin, fout):
        super().__init__()
        r, w = dist.get_rank(), dist.get_world_size()
        full = torch.randn(fout, fin) / fin ** 0.5
        self.weight = nn.Parameter(full.chunk(w, 1)[r].clone())

    def forward(self, x):
        return SumForward.apply(x @ self.weight.t())


class SumForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


dist.init_process_group("gloo")
mistake = dist.get_world_size() > 1 and len(sys.argv) > 1
torch.manual_seed(13)
model = nn.Sequential(ColumnLinear(7, 12), nn.Tanh(), RowLinear(12, 4))
opt = Lamb(model.parameters())
x, y = torch.randn(10, 7), torch.randn(10, 4)
for _ in range(1):
    loss = F.mse_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
