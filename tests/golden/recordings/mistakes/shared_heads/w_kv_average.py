import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


def mark_copy(x):
    class Copy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            return t.view_as(t)

        @staticmethod
        def backward(ctx, g):
            g = g.contiguous()
            dist.all_reduce(g)
            return g
    return Copy.apply(x)


def mark_sum(x):
    class Reduce(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            t = t.contiguous()
            dist.all_reduce(t)
            return t

        @staticmethod
        def backward(ctx, g):
            return g
    return Reduce.apply(x)


class GQA(nn.Module):
    """8 query heads, 2 key-value heads; with 4 ranks each kv head is held by two ranks"""

    def __init__(self, dim=16, heads=8, kv=2):
        super().__init__()
        r, w = dist.get_rank(), dist.get_world_size()
        hd = dim // heads
        q, k, v, o = (torch.randn(n, dim) * .25 for n in (heads * hd, kv * hd, kv * hd, dim))
        self.hd, self.local = hd, heads // w
        self.kv_local = max(1, kv // w)
        first = r * kv // w
        self.q = nn.Parameter(q.view(heads, hd, dim)[r * self.local:(r + 1) * self.local].clone())
        self.k = nn.Parameter(k.view(kv, hd, dim)[first:first + self.kv_local].clone())
        self.v = nn.Parameter(v.view(kv, hd, dim)[first:first + self.kv_local].clone())
        self.o = nn.Parameter(o.view(dim, heads, hd)[:, r * self.local:][:, :self.local].clone())
        self.replicas = w // kv if w > kv else 1
        ranks = [list(range(i, i + self.replicas)) for i in range(0, w, self.replicas)]
        groups = [dist.new_group(g) for g in ranks]
        self.kv_group = groups[r // self.replicas]

    def forward(self, x):
        x = mark_copy(x)
        # heads of this rank
        q, k, v = (torch.einsum("bnd,hed->bhne", x, w) for w in (self.q, self.k, self.v))
        k, v = (t.repeat_interleave(self.local // self.kv_local, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mark_sum(torch.einsum("bhne,dhe->bnd", y, self.o))

    def sync_kv(self):
        if self.replicas > 1:
            for p in (self.k, self.v):
                dist.all_reduce(p.grad, group=self.kv_group)
                p.grad /= self.replicas


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.attn = GQA()
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head((x + self.attn(self.norm(x))).mean(1))


dist.init_process_group("gloo")
torch.manual_seed(23)
model = Model()
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
x, y = torch.randn(3, 5, 16), torch.randint(0, 3, (3,))
for i in range(2):
    opt.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    model.attn.sync_kv()
    opt.step()
    if dist.get_rank() == 0:
        print(i, f"{loss.item():.5f}")
