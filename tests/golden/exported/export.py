#!/usr/bin/env python3
"""Writes the exported programs beside this file, with the PyTorch that is installed, and what
PyTorch itself makes of them.

    export.py [NAME...]

NAME__RELEASE.pt2 is what torch.export.save writes; `llama` is packed again, with its files
compressed. NAME__RELEASE.json has for each set of sizes the outputs' and gradients' shape, sum,
weighted sum and sum of squares; inputs have the elements of the recorder's formula.
"""

import json
import pathlib
import sys
import zipfile

import torch
import torch.nn.functional as F
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[2] / "sim/record_torch"), str(HERE.parent / "recordings")]

import programs  # noqa: E402
import shardlab_record  # noqa: E402


class Mlp(nn.Module):
    """A loss inside; a buffer, a bias, a weight that is stored in columns, one that is tied."""

    def __init__(self):
        super().__init__()
        self.table, self.up, self.down = nn.Embedding(12, 8), nn.Linear(8, 16), nn.Linear(16, 8)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 12, bias=False)
        self.head.weight = self.table.weight
        self.mix = nn.Parameter(torch.ones(4, 8).t())
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 8))
        self.register_buffer("shift", torch.linspace(-1, 1, 8), persistent=False)

    def forward(self, tokens, targets):
        x = self.table(tokens) * self.scale + self.shift
        x = x + self.down(F.gelu(self.up(self.norm(x))))
        x = x + (x @ self.mix) @ self.mix.t()
        logits = self.head(x)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten()), logits


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = programs.Llama(
            vocabulary=32, width=16, heads=4, groups=2, inner=32, layers=2, length=8
        )

    def forward(self, tokens):
        return self.model(tokens)


class Net(nn.Module):
    """Convolution, batch norm as it is in evaluation, pooling; sizes that are fixed."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.last = nn.Linear(16, 3)
        self.eval()

    def forward(self, picture):
        x = F.max_pool2d(F.relu(self.norm(self.conv(picture))), 2)
        return self.last(x.flatten(1))


class Sizes(nn.Module):
    """Two open sizes, and numbers that are made of them."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6, 6))

    def forward(self, x, keep):
        rows, columns, width = x.shape
        x = x.reshape(rows * columns, width) @ self.weight
        left, middle, right = x.split(width // 3, dim=1)
        (whole,) = middle.chunk(1)
        positions = torch.arange(rows * columns, dtype=x.dtype)[:, None] / (columns + 1)
        x = torch.cat([left + positions, whole, right.clamp(min=-0.5)], 1)
        hidden = ~keep[..., None] & (torch.arange(width) > 1)
        x = x.view(rows, columns, width).masked_fill(hidden, float("-inf"))
        return x.softmax(-1) ** 2, x.new_ones(2, rows) * columns


def batch_of(**names):
    size = torch.export.Dim("batch", min=1, max=64)
    return {name: {0: size} for name in names}


# Name: (module, inputs' [sizes, bound of integers or None], open dims, other sizes, what is
# differentiated: the number of an output).
PROGRAMS = {
    "mlp": (Mlp, {"tokens": ([4, 6], 12), "targets": ([4, 6], 12)},
            lambda: batch_of(tokens=0, targets=0), [[[8, 6], [8, 6]]], 0),
    "llama": (Llama, {"tokens": ([2, 8], 32)}, lambda: batch_of(tokens=0), [[[3, 8]]], 0),
    "net": (Net, {"picture": ([2, 2, 4, 4], None)}, lambda: None, [], 0),
    "sizes": (Sizes, {"x": ([2, 3, 6], None), "keep": ([2, 3], "bool")},
              lambda: {"x": {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},
                       "keep": {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}},
              [[[4, 5, 6], [4, 5]]], 0),
}


def elements(sizes, bound, seed):
    count = torch.Size(sizes).numel()
    if bound is None:
        return shardlab_record.formula(count, seed, 0, 1).float().view(sizes)
    i = torch.arange(count)
    h = (i + 1) * 7919 + (seed + 1) * 104729 + ((i * i) % 251) * 31
    return ((h // 7) % 2).bool().view(sizes) if bound == "bool" else (h % bound).view(sizes)


def printed(tensor):
    flat = tensor.detach().double().reshape(-1)
    weights = torch.arange(flat.numel()) % 7 + 1
    sums = [flat.sum(), (flat * weights).sum(), (flat * flat).sum()]
    return {"shape": list(tensor.shape), "sums": [float(f"{x:.9g}") for x in sums]}


def facts(model, program, inputs, sizes, of):
    arguments = [
        elements(own, bound, seed)
        for seed, (own, (_, bound)) in enumerate(zip(sizes, inputs.values()))
    ]
    model.zero_grad()
    outputs = model(*arguments)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    outputs[of].sum().backward()
    names = [spec.arg.name for spec in program.graph_signature.output_specs]
    symbols = {}
    placeholders = {node.name: node.meta["val"] for node in program.graph.nodes
                    if node.op == "placeholder"}
    for name, own in zip(inputs, sizes):
        symbols.update({str(symbol): size for symbol, size in zip(placeholders[name].shape, own)
                        if not str(symbol).isdigit()})
    return {
        "sizes": symbols,
        "backward": names[of],
        "outputs": {name: printed(value) for name, value in zip(names, outputs)},
        "gradients": {name: printed(parameter.grad)
                      for name, parameter in model.named_parameters()},
    }


def packed_again(path):
    with zipfile.ZipFile(path) as archive:
        files = [(info.filename, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in files:
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED, 9)


def main():
    torch.set_num_threads(1)
    release = torch.__version__.split("+", maxsplit=1)[0]
    for name in sys.argv[1:] or PROGRAMS:
        make, inputs, open_dims, others, of = PROGRAMS[name]
        torch.manual_seed(0)
        model = make()
        shardlab_record.fill_parameters(model)
        example = [elements(*own, seed) for seed, own in enumerate(inputs.values())]
        program = torch.export.export(model, tuple(example), dynamic_shapes=open_dims())
        path = HERE / f"{name}__{release}.pt2"
        torch.export.save(program, path)
        packed_again(path) if name == "llama" else None
        runs = [[own for own, _ in inputs.values()], *others]
        answers = [facts(model, program, inputs, sizes, of) for sizes in runs]
        path.with_suffix(".json").write_text(json.dumps(answers, indent=1) + "\n")
        print(f"{path.name}: {path.stat().st_size} bytes, {len(program.graph.nodes)} nodes")


if __name__ == "__main__":
    main()
