"""A LLaMA-like block on plain tensors: heads and features over tp, the batch over dp, in the types
of spmd_types. On one process it is the program of one device.

    shardlab record --ranks 4 --processes llama.py
"""

import spmd_types as spmd
import torch
import torch.distributed as dist
import torch.nn.functional as F
from spmd_types import checker
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

ROWS, LENGTH, WIDTH, HEADS, INNER, WORDS = 4, 6, 16, 4, 24, 32


def cut(whole, dims):
    """A parameter of this rank: its piece along tp, the same over dp."""
    for name, dim in dims.items():
        whole = spmd.convert(whole, name, src=spmd.R, dst=spmd.S(dim))
    return nn.Parameter(whole.contiguous().clone())


def drawn(seed, *sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)) / sizes[-1] ** 0.5


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.norm_2 = (nn.Parameter(1 + 0.1 * drawn(seed, WIDTH)) for seed in (1, 2))
        self.q, self.k, self.v = (cut(drawn(s, WIDTH, WIDTH), {"tp": 0}) for s in (3, 4, 5))
        self.o = cut(drawn(6, WIDTH, WIDTH), {"tp": 1})
        self.gate, self.up = (cut(drawn(seed, INNER, WIDTH), {"tp": 0}) for seed in (7, 8))
        self.down = cut(drawn(9, WIDTH, INNER), {"tp": 1})

    def annotate(self):
        for own in (self.norm, self.norm_2):
            spmd.assert_type(own, {"dp": spmd.R, "tp": spmd.I})
        for own in (self.q, self.k, self.v, self.gate, self.up):
            spmd.assert_type(own, {"dp": spmd.R, "tp": spmd.S(0)})
        for own in (self.o, self.down):
            spmd.assert_type(own, {"dp": spmd.R, "tp": spmd.S(1)})

    def attention(self, x):
        rows, length, _ = x.shape
        q, k, v = (
            F.linear(x, w).unflatten(2, (-1, WIDTH // HEADS)).transpose(1, 2)
            for w in (self.q, self.k, self.v)
        )
        scores = q @ k.transpose(2, 3) / (WIDTH // HEADS) ** 0.5
        y = (scores.softmax(3) @ v).transpose(1, 2).flatten(2)
        return spmd.all_reduce(F.linear(y, self.o), "tp", src=spmd.P, dst=spmd.I)

    def feed_forward(self, x):
        inner = F.silu(F.linear(x, self.gate)) * F.linear(x, self.up)
        return spmd.all_reduce(F.linear(inner, self.down), "tp", src=spmd.P, dst=spmd.I)

    def forward(self, x):
        h = spmd.convert(rms_norm(x, self.norm), "tp", src=spmd.I, dst=spmd.R)
        x = x + self.attention(h)
        spmd.assert_type(x, {"dp": spmd.S(0), "tp": spmd.I})
        h = spmd.convert(rms_norm(x, self.norm_2), "tp", src=spmd.I, dst=spmd.R)
        return x + self.feed_forward(h)


def rms_norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(2, keepdim=True) + 1e-5) * weight


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Parameter(drawn(10, WORDS, WIDTH))
        self.block = Block()
        self.head = cut(drawn(11, WORDS, WIDTH), {"tp": 0})

    def annotate(self):
        spmd.assert_type(self.words, {"dp": spmd.R, "tp": spmd.I})
        spmd.assert_type(self.head, {"dp": spmd.R, "tp": spmd.S(0)})
        self.block.annotate()

    def forward(self, tokens):
        x = self.block(F.embedding(tokens, self.words))
        x = spmd.convert(x, "tp", src=spmd.I, dst=spmd.R)
        logits = spmd.all_gather(F.linear(x, self.head), "tp", src=spmd.S(2), dst=spmd.I)
        spmd.assert_type(logits, {"dp": spmd.S(0), "tp": spmd.I})
        return logits


def main():
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    mesh = init_device_mesh("cpu", (max(world // 2, 1), min(world, 2)), mesh_dim_names=("dp", "tp"))
    with spmd.set_current_mesh(mesh):
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        tokens = torch.randint(WORDS, (ROWS, LENGTH), generator=torch.Generator().manual_seed(0))
        own = spmd.convert(tokens, "dp", src=spmd.R, dst=spmd.S(0))
        with checker.typecheck("strict", local=False):
            model.annotate()
            spmd.assert_type(own, {"dp": spmd.S(0), "tp": spmd.I})
            logits = model(own)
            loss = -logits.log_softmax(2).gather(2, own.unsqueeze(2)).sum() / (ROWS * LENGTH)
            loss.backward()
            dp = spmd.normalize_axis("dp")
            for weight in model.parameters():
                kept = spmd.get_partition_spec(weight)
                spmd.assert_type(weight.grad, {**spmd.get_local_type(weight), dp: spmd.P}, kept)
                weight.grad = spmd.all_reduce(weight.grad, "dp", src=spmd.P, dst=spmd.R)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
