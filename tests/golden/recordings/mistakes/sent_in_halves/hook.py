"""DDP with a hook that sends gradients in 16 bits.

    hook.py

Recorded by `shardlab blame --ranks 2 --processes hook.py`.
"""

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
ddp = DDP(nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3)))
ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
opt = torch.optim.SGD(ddp.parameters(), lr=0.05)
x, y = torch.randn(8, 10), torch.randint(0, 3, (8,))
for _ in range(1):
    opt.zero_grad()
    nn.functional.cross_entropy(ddp(x.chunk(world)[rank]), y.chunk(world)[rank]).backward()
    opt.step()
