"""Attention by heads, 5 heads on 3 ranks: one rank has a single head, and its views are others than
those of two heads, so that ranks part. `heads.py no_sum` forgets to add up the gradient of the
input, `heads.py max` takes the largest in place of the sum.

Recorded by `shardlab blame --ranks 3 --processes heads.py [no_sum|max]`.
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

HEADS, DIM, ROWS = 5, 2, 4
WIDTH = HEADS * DIM
MISTAKE = sys.argv[1] if len(sys.argv) > 1 else ""
dist.init_process_group("gloo")
MINE = torch.arange(HEADS).tensor_split(dist.get_world_size())[dist.get_rank()].tolist()


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        if MISTAKE == "no_sum":
            return gradient
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x, op=dist.ReduceOp.MAX if MISTAKE == "max" else dist.ReduceOp.SUM)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        whole = [torch.randn(HEADS, DIM, WIDTH) * 0.3 for _ in range(4)]
        pieces = [nn.Parameter(w[MINE].reshape(-1, WIDTH).clone()) for w in whole]
        self.q, self.k, self.v, self.o = pieces

    def forward(self, x):
        def heads(weight):
            return (x @ weight.t()).view(ROWS, len(MINE), DIM).transpose(0, 1)

        y = F.softmax(heads(self.q) @ heads(self.k).transpose(1, 2), -1) @ heads(self.v)
        return y.transpose(0, 1).reshape(ROWS, -1) @ self.o


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), Attention()

    def forward(self, x):
        return x + Sum.apply(self.attention(Copy.apply(self.norm(x))))


torch.manual_seed(0)
model = nn.Sequential(Block(), Block(), nn.Linear(WIDTH, 3))
x, labels = torch.randn(ROWS, WIDTH), torch.randint(0, 3, (ROWS,))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
out = model(x)
size = out.detach().norm()  # read by nobody
F.cross_entropy(out, labels).backward()
optimizer.step()
dist.destroy_process_group()
