"""Each rank has an early and a late part of a sequence, and gathers keys; a mistake:

    zigzag.py [own_mask | own_count | own_positions]

Recorded by `shardlab blame --ranks 2 --processes zigzag.py [MISTAKE]`; one rank makes none of the
mistakes. What is gathered is in another order than on one rank, and so are numbers of the order.
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
WIDTH, HEADS, LENGTH, WORDS = 8, 2, 8, 11
parts = torch.arange(LENGTH).chunk(2 * world)
zigzag = [torch.cat([parts[i], parts[2 * world - 1 - i]]) for i in range(world)]
own, order = zigzag[rank], torch.cat(zigzag)
first = torch.arange(len(own))


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        pieces = [torch.empty_like(x) for _ in range(world)]
        dist.all_gather(pieces, x.contiguous())
        return torch.cat(pieces, 1)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient.chunk(world, 1)[rank].contiguous()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2)
                   for one in (q, Gather.apply(k), Gather.apply(v)))
        at = first if mistake == "own_mask" else own
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=at[:, None] >= order[None])
        return x + self.out(y.transpose(1, 2).flatten(2))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.attention = Attention()

    def forward(self, words):
        at = first if mistake == "own_positions" else own
        x = self.attention(self.words(words) + self.places(at))
        return F.linear(x, self.words.weight)


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
words, kept = torch.randint(0, WORDS, (2, LENGTH + 1)), torch.rand(2, LENGTH) > 0.3
scores = model(words[:, :-1][:, own])
losses = F.cross_entropy(scores.flatten(0, 1), words[:, 1:][:, own].flatten(), reduction="none")
count = kept[:, own].sum().float()
dist.all_reduce(count)
if mistake == "own_count":
    count = kept[:, own].sum().float() * world
loss = (losses * kept[:, own].flatten()).sum() / count
loss.backward()
for p in model.parameters():
    dist.all_reduce(p.grad)
optimizer.step()
print(loss.item())
dist.destroy_process_group()
