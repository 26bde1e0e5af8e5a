"""Two layers of Megatron by hand: each rank adds the second bias. Recorded with --ranks 4 and 8."""
import torch, torch.nn as nn, torch.nn.functional as F
import torch.distributed as dist

class CopyToTP(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x
    @staticmethod
    def backward(ctx, g):
        g = g.contiguous()
        dist.all_reduce(g)
        return g

class ReduceFromTP(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        dist.all_reduce(x)
        return x
    @staticmethod
    def backward(ctx, g):
        return g

def piece(full, dim):
    return full.chunk(dist.get_world_size(), dim)[dist.get_rank()].contiguous()

class Column(nn.Module):
    def __init__(self, i, o, gen):
        super().__init__()
        self.weight = nn.Parameter(piece(torch.randn(o, i, generator=gen) * 0.2, 0))
        self.bias = nn.Parameter(piece(torch.randn(o, generator=gen) * 0.2, 0))
    def forward(self, x):
        return F.linear(CopyToTP.apply(x), self.weight, self.bias)

class Row(nn.Module):
    def __init__(self, i, o, gen):
        super().__init__()
        self.weight = nn.Parameter(piece(torch.randn(o, i, generator=gen) * 0.2, 1))
        self.bias = nn.Parameter(torch.randn(o, generator=gen) * 0.2)
    def forward(self, x):
        return ReduceFromTP.apply(F.linear(x, self.weight, self.bias))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        gen = torch.Generator().manual_seed(1)
        self.norm = nn.LayerNorm(16)
        self.up = Column(16, 32, gen)
        self.down = Row(32, 16, gen)
    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))

dist.init_process_group("gloo")
gen = torch.Generator().manual_seed(0)
x, t = torch.randn(8, 16, generator=gen), torch.randn(8, 16, generator=gen)
model = Net()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    opt.zero_grad()
    loss = F.mse_loss(model(x), t)
    loss.backward()
    opt.step()
    if dist.get_rank() == 0:
        print("tp", dist.get_world_size(), "step", step, "loss", loss.item())
dist.destroy_process_group()
