"""Three programs for N ranks as people write them: a vocabulary cut over ranks, micro-batches that
each rank cuts from its own rows, and an optimizer that steps a piece of all parameters.

    by_hand.py PROGRAM [MISTAKE]

vocabulary: local_largest, no_sum_of_gradients, no_sum_of_scores, target_not_masked
rows, tokens: averaged_sum, no_sum_of_biases, mean_of_own_rows
pieces: own_norm, other_order, decays_by_rank

Recorded by `shardlab blame --ranks 3 --processes by_hand.py PROGRAM [MISTAKE]`; one rank makes none
of the mistakes.
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
program = sys.argv[1]
mistake = sys.argv[2] if len(sys.argv) > 2 and world > 1 else ""
WORDS, WIDTH, ROWS = 11, 6, 9
torch.manual_seed(3)


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous().clone()
        if mistake != "no_sum_of_gradients":
            dist.all_reduce(gradient)
        return gradient


class Loss(torch.autograd.Function):
    """Cross entropy of scores whose words are cut over ranks."""

    @staticmethod
    def forward(ctx, scores, targets, begin):
        largest = scores.max(-1).values
        if mistake != "local_largest":
            dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        powers = (scores - largest.unsqueeze(-1)).exp()
        total = powers.sum(-1)
        if mistake != "no_sum_of_scores":
            dist.all_reduce(total)
        elsewhere = (targets < begin) | (targets >= begin + scores.shape[-1])
        own = (targets - begin).masked_fill(elsewhere, 0)
        picked = (scores - largest.unsqueeze(-1)).gather(-1, own.unsqueeze(-1)).squeeze(-1)
        if mistake != "target_not_masked":
            picked = picked.masked_fill(elsewhere, 0)
        dist.all_reduce(picked)
        ctx.save_for_backward(powers / total.unsqueeze(-1), elsewhere, own)
        return total.log() - picked

    @staticmethod
    def backward(ctx, gradient):
        chances, elsewhere, own = ctx.saved_tensors
        chances = chances.clone()
        chances.scatter_add_(-1, own.unsqueeze(-1), elsewhere.unsqueeze(-1).to(chances.dtype) - 1)
        return chances * gradient.unsqueeze(-1), None, None


class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [len(part) for part in torch.arange(WORDS).tensor_split(world)]
        self.begin = sum(sizes[:rank])
        self.layer = nn.Linear(WIDTH, WIDTH)
        words = (torch.randn(WORDS, WIDTH) / 2).split(sizes)[rank]
        self.words = nn.Parameter(words.clone())

    def forward(self, x, targets):
        scores = Copy.apply(torch.tanh(self.layer(x))) @ self.words.t()
        return Loss.apply(scores, targets, self.begin).mean()


def vocabulary():
    model = Scores()
    x, targets = torch.randn(4, WIDTH), torch.randint(0, WORDS, (4,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(x, targets)
    loss.backward()
    optimizer.step()


def rows():
    first = nn.Linear(WIDTH, 5)
    x, targets = torch.randn(ROWS + 2, WIDTH), torch.randint(0, 4, (ROWS + 2,))
    if program == "tokens":
        first, x = nn.Embedding(WORDS, 5), torch.randint(0, WORDS, (ROWS + 2,))
    model = nn.Sequential(first, nn.Tanh(), nn.Linear(5, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, weight_decay=0.01)
    for part in torch.arange(len(x)).tensor_split(world)[rank].tensor_split(2):
        scores = model(x[part])
        loss = F.cross_entropy(scores, targets[part], reduction="sum") / len(x)
        if mistake == "mean_of_own_rows":
            loss = F.cross_entropy(scores, targets[part]) / world / 2
        shown = loss.detach() * world  # read by nobody
        loss.backward()
    for parameter in model.parameters():
        if mistake == "no_sum_of_biases" and parameter.dim() == 1:
            continue
        dist.all_reduce(parameter.grad)
        if mistake == "averaged_sum":
            parameter.grad /= world
    optimizer.step()


def pieces():
    model = nn.Sequential(nn.Linear(WIDTH, 6), nn.ReLU(), nn.Linear(6, 3))
    x, targets = torch.randn(ROWS, WIDTH), torch.randn(ROWS, 3)
    parameters = list(model.parameters())
    size = sum(parameter.numel() for parameter in parameters)
    own = (size + world - 1) // world
    part = torch.arange(ROWS).tensor_split(world)[rank]
    F.mse_loss(model(x[part]), targets[part], reduction="sum").backward()
    padding = torch.zeros(own * world - size)
    flat = torch.cat([parameter.grad.flatten() for parameter in parameters] + [padding])
    dist.all_reduce(flat)
    piece = flat[rank * own:(rank + 1) * own].clone()
    norm = piece.square().sum()
    if mistake != "own_norm":
        dist.all_reduce(norm)
    piece = piece * (0.3 / (norm.sqrt() + 1e-6)).clamp(max=1)
    with torch.no_grad():
        before = torch.cat([parameter.flatten() for parameter in parameters] + [padding])
        after = before[rank * own:(rank + 1) * own] - 0.1 * piece
        if mistake == "decays_by_rank":
            after = after * 0.9 ** rank
        everywhere = [torch.empty(own) for _ in range(world)]
        dist.all_gather(everywhere, after.contiguous())
        if mistake == "other_order":
            everywhere.reverse()
        whole = torch.cat(everywhere)
        for parameter in parameters:
            parameter.copy_(whole[:parameter.numel()].view_as(parameter))
            whole = whole[parameter.numel():]


{"vocabulary": vocabulary, "rows": rows, "tokens": rows, "pieces": pieces}[program]()
dist.destroy_process_group()
