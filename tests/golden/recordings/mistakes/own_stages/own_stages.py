"""A pipeline whose stages are models of their own: rank 1's blocks.0 is layers.2 of one process.

    own_stages.py [other_epsilon | doubled_gradient]

other_epsilon is that of the norm of layer 3, doubled_gradient one that rank 1 sends back. Recorded
by `shardlab blame --ranks 3 --processes own_stages.py [MISTAKE]`; one rank makes none of them.
Layers 0 and 1 are equal in the beginning.
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

WORDS, WIDTH, ROWS, MICROBATCHES, LAYERS = 7, 4, 4, 2, 5
dist.init_process_group("gloo")
RANK, RANKS = dist.get_rank(), dist.get_world_size()
MISTAKE = sys.argv[1] if len(sys.argv) > 1 and RANKS > 1 else ""
FIRST, LAST = RANK == 0, RANK == RANKS - 1


class Layer(nn.Module):
    def __init__(self, number):
        super().__init__()
        torch.manual_seed(max(number, 1))
        wrong = MISTAKE == "other_epsilon" and number == 3
        self.norm = nn.LayerNorm(WIDTH, eps=0.1 if wrong else 1e-5)
        self.mix = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + F.gelu(self.mix(self.norm(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(10)
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.Sequential(*(Layer(i) for i in range(LAYERS)))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, x):
        return self.head(self.layers(self.words(x)))


class Stage(nn.Module):
    def __init__(self, numbers):
        super().__init__()
        whole = Model()
        self.table = whole.words if FIRST else None
        self.blocks = nn.Sequential(*(Layer(i) for i in numbers))
        self.out = whole.head if LAST else None

    def forward(self, x):
        x = self.blocks(self.table(x) if FIRST else x)
        return self.out(x) if LAST else x


own = torch.arange(LAYERS).tensor_split(RANKS)[RANK].tolist()
model = Model() if RANKS == 1 else Stage(own)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
torch.manual_seed(20)
words, targets = (torch.randint(0, WORDS, (ROWS, 3)).chunk(MICROBATCHES) for _ in range(2))
results = []
for batch in range(MICROBATCHES):
    given = words[batch]
    if not FIRST:
        given = torch.empty(ROWS // MICROBATCHES, 3, WIDTH)
        dist.recv(given, RANK - 1)
        given.requires_grad_()
    result = model(given)
    if LAST:
        result = F.cross_entropy(result.transpose(1, 2), targets[batch]) / MICROBATCHES
    else:
        dist.send(result.detach(), RANK + 1)
    results.append((given, result))
for given, result in results:
    gradient = None
    if not LAST:
        gradient = torch.empty_like(result)
        dist.recv(gradient, RANK + 1)
        if MISTAKE == "doubled_gradient" and RANK == 1:
            gradient = gradient * 2
    result.backward(gradient)
    if not FIRST:
        dist.send(given.grad, RANK - 1)
optimizer.step()
dist.destroy_process_group()
