"""One model by hand on one process and, by tensor and data parallelism, on several, with a mistake
in it or none: recorded for tests of `shardlab blame`.

    mistakes.py FOLDER SHARDLAB    writes the files; each run is of a process for each rank
    mistakes.py run WAY MISTAKE    one step, recorded by `shardlab record`
    mistakes.py dump WAY MISTAKE PATH VALUES
"""

import os
import pathlib
import socket
import subprocess
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

WIDTH, INNER, ROWS, LAYERS = 8, 16, 4, 2
# By way: mistakes, and the module that blame has to name.
MISTAKES = {
    "tp": {
        "none": "",
        "other_way": "",  # the result of blocks.1.up is twice as large, and halved behind it
        "no_sum_of_down": "blocks.1.down",  # the sum behind rows is forgotten
        "sum_twice": "blocks.0",
        "no_sum_of_gradients": "blocks.1.up",  # by the copy in front of columns, in backward
        "norm_of_rank_1": "blocks.1.norm",  # another epsilon on that rank
        "wrong_piece": "blocks.1.down",  # its weight is the other rank's
        "same_piece": "blocks.1.up.weight",  # of rank 0, on all ranks
        "scaled_gradient": "blocks.0.up.weight.grad",
    },
    "dp": {
        "none": "",
        "no_average": "blocks.1.down",  # the gradient of one parameter is left out
        "sum_for_average": "mistakes.py", "max_for_sum": "mistakes.py",  # that of the all_reduce
        "other_norm": "blocks.1.norm",  # another epsilon on every rank
    },
    "clip": {  # as dp; gradients are clipped, which hides a factor of all of them
        "none": "",
        "sum_hidden": "mistakes.py",  # the line of the all_reduce
        "times_ranks": "mistakes.py",  # the line of the loss
    },
}

# Values that a job has written, with or without their elements.
DUMPS = (
    ("tp", "none", "fp"), ("tp", "no_sum_of_down", "fp"), ("tp", "no_sum_of_gradients", "whole"),
    ("tp", "scaled_gradient", "fp"), ("dp", "none", "stats"), ("dp", "no_average", "fp"),
    ("dp", "other_norm", "whole"),
)


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Block(nn.Module):
    def __init__(self, way, mistake):
        super().__init__()
        self.way, self.mistake = way, mistake
        other = mistake == "other_norm" or (mistake == "norm_of_rank_1" and
                                            os.environ.get("RANK") == "1")
        self.norm = nn.LayerNorm(WIDTH, eps=1e-1 if other else 1e-5)
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH, bias=False)

    def cut(self, rank, ranks):
        own = slice(rank * INNER // ranks, (rank + 1) * INNER // ranks)
        other = slice((ranks - 1 - rank) * INNER // ranks, (ranks - rank) * INNER // ranks)
        rows = other if self.mistake == "wrong_piece" else own
        first = slice(0, INNER // ranks)
        columns = first if self.mistake == "same_piece" else own
        self.up.weight = nn.Parameter(self.up.weight.data[columns].clone())
        self.up.bias = nn.Parameter(self.up.bias.data[own].clone())
        self.down.weight = nn.Parameter(self.down.weight.data[:, rows].clone())

    def forward(self, x):
        h = self.norm(x)
        if self.way == "tp" and self.mistake != "no_sum_of_gradients":
            h = Copy.apply(h)
        if self.mistake == "other_way":
            h = self.down(F.gelu((self.up(2 * h) + self.up.bias) / 2))
        else:
            h = self.down(F.gelu(self.up(h)))
        if self.way == "tp" and self.mistake != "no_sum_of_down":
            h = Sum.apply(h)
        if self.way == "tp" and self.mistake == "sum_twice":
            h = Sum.apply(h)
        return x + h


class Model(nn.Module):
    def __init__(self, way, mistake):
        super().__init__()
        last = {"sum_twice": 0}.get(mistake, LAYERS - 1)
        self.blocks = nn.ModuleList(
            Block(way, mistake if i == last else "none") for i in range(LAYERS))
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def program(way, mistake):
    """(model, step) of this process."""
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    if ranks > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Model(way if ranks > 1 else "one", mistake)
    x, y = torch.randn(ROWS, WIDTH), torch.randint(0, 3, (ROWS,))
    if way == "tp" and ranks > 1:
        for block in model.blocks:
            block.cut(rank, ranks)
    if way in ("dp", "clip"):
        x, y = (part.chunk(ranks)[rank] for part in (x, y))
    if mistake == "scaled_gradient":
        model.blocks[0].up.weight.register_hook(lambda gradient: gradient * 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        loss = F.cross_entropy(model(x), y)
        if mistake == "times_ranks":
            loss = loss * ranks
        loss.backward()
        if way in ("dp", "clip") and ranks > 1:
            for name, parameter in model.named_parameters():
                if mistake == "no_average" and name == "blocks.1.down.weight":
                    continue
                dist.all_reduce(parameter.grad, dist.ReduceOp.MAX if mistake == "max_for_sum"
                                else dist.ReduceOp.SUM)
                if mistake not in ("sum_for_average", "sum_hidden"):
                    parameter.grad /= ranks
        if way == "clip":
            nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        optimizer.step()

    return model, step


def run(way, mistake):
    _, step = program(way, mistake)
    step()


def dump(way, mistake, path, values):
    import shardlab_record

    model, step = program(way, mistake)
    with shardlab_record.dump_values(path, model, values=values):
        step()


def dump_of_ranks(folder, way, mistake, values):
    here = pathlib.Path(__file__).resolve()
    with socket.socket() as free:
        free.bind(("localhost", 0))
        world = dict(os.environ, WORLD_SIZE="2", MASTER_ADDR="localhost",
                     MASTER_PORT=str(free.getsockname()[1]),
                     PYTHONPATH=str(here.parents[3] / "sim/record_torch"))
    command = [sys.executable, here, "dump", way, mistake,
               f"{folder}/values_{way}_{mistake}.json.gz", values]
    for process in [subprocess.Popen(command, env=dict(world, RANK=str(rank)))
                    for rank in range(2)]:
        if process.wait() != 0:
            sys.exit(1)


def main(folder, shardlab):
    here = pathlib.Path(__file__).resolve()
    for way, mistake, values in DUMPS:
        dump_of_ranks(folder, way, mistake, values)
    command = [shardlab, "record", "--python", sys.executable]
    for way, mistakes in MISTAKES.items():
        one = [*command, "--out", f"{folder}/{way}_one.json.gz", here, "run", way, "none"]
        subprocess.run(one, check=True)
        for mistake in mistakes:
            out = f"{folder}/{way}_{mistake}.json.gz"
            subprocess.run([*command, "--ranks", "2", "--processes", "--out", out, here, "run",
                            way, mistake], check=True)


if __name__ == "__main__":
    if sys.argv[1] in ("run", "dump"):
        {"run": run, "dump": dump}[sys.argv[1]](*sys.argv[2:])
    else:
        main(*sys.argv[1:])
