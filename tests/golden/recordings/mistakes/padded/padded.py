"""Parameters are flat and cut evenly over ranks: the last piece ends in zeros, or is zeros alone.

    padded.py

Recorded by `shardlab blame --ranks 4 --processes padded.py`.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


class GatherParam(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard, shape):
        world = dist.get_world_size()
        full = torch.empty(shard.numel() * world, dtype=shard.dtype)
        dist.all_gather_into_tensor(full, shard)
        ctx.size = shard.numel()
        n = shape.numel()
        return full[:n].view(shape)

    @staticmethod
    def backward(ctx, grad):
        world = dist.get_world_size()
        flat = F.pad(grad.reshape(-1), (0, ctx.size * world - grad.numel()))
        out = torch.empty(ctx.size, dtype=grad.dtype)
        dist.reduce_scatter_tensor(out, flat)
        return out / world, None


class ShardedLinear(nn.Module):
    def __init__(self, fin, fout):
        super().__init__()
        world, rank = dist.get_world_size(), dist.get_rank()
        layer = nn.Linear(fin, fout)
        self.shapes = {}
        for name, p in layer.named_parameters():
            flat = p.data.reshape(-1)
            size = -(-flat.numel() // world)
            flat = F.pad(flat, (0, size * world - flat.numel()))
            self.register_parameter(name, nn.Parameter(flat[rank * size:(rank + 1) * size].clone()))
            self.shapes[name] = p.shape

    def forward(self, x):
        w = GatherParam.apply(self.weight, self.shapes["weight"])
        b = GatherParam.apply(self.bias, self.shapes["bias"])
        return F.linear(x, w, b)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(4)
    model = nn.Sequential(ShardedLinear(5, 9), nn.SiLU(), ShardedLinear(9, 3))
    opt = torch.optim.AdamW(model.parameters(), lr=0.02)
    x, y = torch.randn(8, 5), torch.randn(8, 3)
    x, y = x.tensor_split(world)[rank], y.tensor_split(world)[rank]
    for _ in range(1):
        opt.zero_grad()
        loss = F.smooth_l1_loss(model(x), y)
        loss.backward()
        opt.step()


main()
