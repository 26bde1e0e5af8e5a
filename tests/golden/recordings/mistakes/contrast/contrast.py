"""Images and texts against those of all ranks.

    contrast.py [same_labels]

Recorded by `shardlab blame --ranks 2 --processes contrast.py [same_labels]`.
"""

import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class GatherLayer(torch.autograd.Function):
    """Gather tensors from all processes, supporting backward propagation."""
    @staticmethod
    def forward(ctx, x):
        out = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(out, x)
        return tuple(out)

    @staticmethod
    def backward(ctx, *grads):
        all_grads = torch.stack(grads)
        dist.all_reduce(all_grads)
        return all_grads[dist.get_rank()]


class Clip(nn.Module):
    def __init__(self):
        super().__init__()
        self.visual = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 8))
        self.text = nn.Sequential(nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, 8))
        self.logit_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, image, text):
        towers = self.visual(image), self.text(text)
        return *(F.normalize(x, dim=-1) for x in towers), self.logit_scale.exp()


def clip_loss(img, txt, scale):
    rank = dist.get_rank()
    all_img = torch.cat(GatherLayer.apply(img))
    all_txt = torch.cat(GatherLayer.apply(txt))
    first = 0 if len(sys.argv) > 1 else rank * img.shape[0]
    labels = torch.arange(img.shape[0]) + first
    li = scale * img @ all_txt.t()
    lt = scale * txt @ all_img.t()
    return (F.cross_entropy(li, labels) + F.cross_entropy(lt, labels)) / 2


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(5)
model = Clip()
images, texts = torch.randn(8, 12), torch.randn(8, 9)
opt = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=0.1)
mine = slice(rank * 8 // world, (rank + 1) * 8 // world)
for _ in range(1):
    loss = clip_loss(*model(images[mine], texts[mine]))
    opt.zero_grad()
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= world
    opt.step()
