"""A recurrent net by DistributedDataParallel in two micro-batches, and a mistake:

    accumulated.py [no_sync]

Recorded by `shardlab blame --ranks 2 --processes accumulated.py [MISTAKE]`; one rank makes no
mistake. A result of the recurrent layer is computed in another way on fewer rows.
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
WORDS = 13


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 8)
        self.layer = nn.GRU(8, 12, batch_first=True)
        self.out = nn.Linear(12, WORDS)

    def forward(self, words):
        return self.out(self.layer(self.words(words))[0])


net = nn.parallel.DistributedDataParallel(Net())
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
own = torch.randint(0, WORDS, (8, 7)).chunk(world)[rank]
seen = torch.zeros(())
for i, rows in enumerate(own.chunk(2)):
    apart = i == 0 or mistake == "no_sync"
    with net.no_sync() if apart else torch.enable_grad():
        scores = net(rows[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1), rows[:, 1:].flatten()) / 2
        loss.backward()
    seen.add_(loss.detach())
nn.utils.clip_grad_norm_(net.parameters(), 1.0)
optimizer.step()
optimizer.zero_grad()
print(seen.item())
dist.destroy_process_group()
