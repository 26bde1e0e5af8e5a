"""Gradients that are asked for, a step by hand in a function, and a mistake:

    no_names.py [bias | state | not_divided]

Recorded by `shardlab record --ranks 2 --processes no_names.py [MISTAKE]`; one rank makes no
mistake.
"""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mistake = sys.argv[1] if len(sys.argv) > 1 and world > 1 else ""


def main():
    torch.manual_seed(0)
    own = {"up": torch.randn(5, 6), "bias": torch.zeros(6), "down": torch.randn(6, 2)}
    squares = {name: torch.zeros_like(one) for name, one in own.items()}
    for one in own.values():
        one.requires_grad_()
    x, target = (torch.randn(8, size).chunk(world)[rank] for size in (5, 2))
    y = torch.relu(x @ own["up"] + own["bias"]) @ own["down"]
    loss = (y - target).square().sum() / (1 if mistake == "not_divided" else 16)
    gradients = torch.autograd.grad(loss, list(own.values()))
    for (name, one), gradient in zip(own.items(), gradients):
        if mistake != "bias" or name != "bias":
            dist.all_reduce(gradient)
        with torch.no_grad():
            squares[name].addcmul_(gradient, gradient)
            if mistake == "state" and name == "up":
                dist.all_reduce(squares[name])
            one.sub_(0.1 * gradient / (squares[name].sqrt() + 1e-3))


main()
dist.destroy_process_group()
