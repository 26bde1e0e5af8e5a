#!/usr/bin/env python3
"""Writes saved/x.pt and npy/x.npy with saved.json and npy.json, which say what they hold.

    record.py    with PyTorch and NumPy
"""

import argparse
import hashlib
import json
import pathlib

import numpy
import torch

HERE = pathlib.Path(__file__).resolve().parent
DTYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.int64: "i64", torch.bool: "bool",
          torch.float8_e4m3fn: "f8_e4m3"}


def fact(tensor):
    data = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "how": "whole",
            "sha256": hashlib.sha256(data).hexdigest()}


def write(name, what, tensors, objects):
    facts = {"what": what, "torch": torch.__version__.split("+")[0], "ranks": 1,
             "tensors": {key: fact(tensor) for key, tensor in tensors.items()}, "objects": objects}
    (HERE / f"{name}.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def main():
    for name in ("npy", "saved", "refused"):
        (HERE / name).mkdir(exist_ok=True)
    rows = numpy.arange(12, dtype="<f4").reshape(3, 4) + 1000
    numpy.save(HERE / "npy/x.npy", rows)
    write("npy", "numpy.save", {"x": torch.from_numpy(rows)}, {})
    w = torch.arange(24, dtype=torch.float32).reshape(4, 6) + 1000
    model = {
        "w": w, "transposed": w.t(), "row": w[1], "columns": w[:, 1:3], "tied": w,
        "parameter": torch.nn.Parameter((torch.arange(4) + 5.0).bfloat16()),
        "f8": torch.arange(4.0).to(torch.float8_e4m3fn), "none": torch.zeros(0, 3),
        "number": torch.tensor(7),
    }
    parts = [torch.arange(3), {"k": torch.ones(2, dtype=torch.bool)}]
    torch.save({"model": model, "list": parts, "step": 7, "lr": [0.125, 0.25], "nothing": None,
                "arguments": argparse.Namespace(name="x")}, HERE / "saved/x.pt")
    tensors = {f"model.{key}": tensor for key, tensor in model.items()}
    write("saved", "torch.save of nested dicts: views, a parameter, an object of another class",
          tensors | {"list.0": parts[0], "list.1.k": parts[1]["k"]},
          {"step": 7, "lr": [0.125, 0.25], "nothing": None})
    # Elements that are not as they are stored, and two names that are one.
    z, y = torch.tensor([1 + 2j, 3 - 4j]), torch.tensor([5 + 6j])
    torch.save({"w": w, "conjugated": z.conj(), "negated": y.conj().imag,
                "z": z.conj().resolve_conj()}, HERE / "refused/lazy.pt")
    torch.save({"a.b": w, "a": {"b": w + 1}}, HERE / "refused/twice.pt")
    # Scales that are copied, and a dtype of which two elements are in a byte.
    packed = torch.arange(2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    torch.save({"scales": torch.tensor([1.0, 4.0]).to(torch.float8_e8m0fnu), "packed": packed},
               HERE / "refused/packed.pt")


if __name__ == "__main__":
    main()
