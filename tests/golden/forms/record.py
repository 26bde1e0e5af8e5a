#!/usr/bin/env python3
"""Asks PyTorch for calls in every form: taken, and with which numbers, or refused.

    build/tests/forms/forms emit | python3 tests/golden/forms/record.py OUT.tsv.gz

A line is the form, a tab and the answer as tests/forms/forms.cpp writes it. Left out: ops that
PyTorch does not have, has for other devices only, or whose results it leaves unwritten, and calls
that end its process. Recorded from torch 2.15.0.
"""

import gzip
import json
import math
import os
import sys
import warnings

import torch

DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "i64": torch.int64,
          "bf16": torch.bfloat16, "i32": torch.int32, "bool": torch.bool, "u8": torch.uint8,
          "c128": torch.complex128, "c64": torch.complex64, "i16": torch.int16, "i8": torch.int8}
NOT_HERE = ("Could not run", "not implemented for", "is not available for", "only supports CUDA",
            "not supported on CPU")
UNWRITTEN = ("empty", "resize")  # their results are unwritten memory


def number(value):
    return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}.get(value, value)


def tensor_of(entry):
    dtype = DTYPES[entry["dtype"]]
    data = [number(value) for value in entry["data"]]
    if dtype.is_complex:
        flat = torch.tensor(data, dtype=torch.float64).reshape(-1, 2)
        return torch.view_as_complex(flat).to(dtype).reshape(entry["shape"])
    return torch.tensor(data, dtype=torch.float64).to(dtype).reshape(entry["shape"])


def argument(value, inputs):
    if isinstance(value, list):
        return [argument(item, inputs) for item in value]
    if not isinstance(value, dict):
        return value
    if "in" in value:
        return inputs[value["in"]]
    if "dtype" in value:
        return DTYPES[value["dtype"]]
    if "float" in value:
        return number(value["float"])
    text = value["text"]
    return getattr(torch, text) if text.endswith("_format") else text


def overload_of(name):
    space, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, space), base, None)
    return getattr(packet, overload or "default", None) if packet is not None else None


def tensors_in(value):
    if torch.is_tensor(value):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return [None] if value is None else []


def printed(value):
    if value is None:
        return "none"
    if value.is_complex():
        value = torch.view_as_real(value.resolve_conj())
    numbers = value.detach().to(torch.float64).reshape(-1)
    weights = torch.arange(numbers.numel(), dtype=torch.float64) % 7 + 1
    return f"{numbers.numel()} {numbers.sum().item():.9g} {(numbers * weights).sum().item():.9g}"


def answer(line):
    overload = overload_of(line["op"])
    if overload is None or any(word in line["op"] for word in UNWRITTEN):
        return None
    inputs = [tensor_of(entry) for entry in line["inputs"]]
    given = [argument(value, inputs) for value in line.get("args", [])]
    positional, keywords, written = [], {}, []
    for declared, value in zip(overload._schema.arguments, given):
        if declared.alias_info is not None and declared.alias_info.is_write:
            written += tensors_in(value)
        if declared.kwarg_only:
            keywords[declared.name] = value
        else:
            positional.append(value)
    try:
        told = overload(*positional, **keywords)
    except (RuntimeError, ValueError, IndexError, TypeError, AssertionError) as error:
        text = str(error)
        return None if any(words in text for words in NOT_HERE) else "refused"
    results = [] if told is None else tensors_in(told)
    results += [t for t in written if not any(t is r for r in results)]
    return "; ".join(printed(result) for result in results)


def told_in_child(texts):
    """Rows of some lines; None where the process ends, as it does at some calls."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        rows = []
        for text in texts:
            line = json.loads(text)
            told = answer(line)
            if told is not None:
                rows.append(f"{line['form']}\t{told}\n")
        with os.fdopen(writing, "w", encoding="utf-8") as stream:
            stream.write("".join(rows))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as stream:
        rows = stream.read()
    return rows if os.waitpid(child, 0)[1] == 0 else None


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    texts, lines = list(sys.stdin), []
    for begin in range(0, len(texts), 40):
        batch = texts[begin:begin + 40]
        rows = told_in_child(batch)
        if rows is None:
            rows = "".join(told_in_child([text]) or "" for text in batch)
        lines += rows.splitlines(keepends=True)
    with open(sys.argv[1], "wb") as raw, gzip.GzipFile("", "wb", 9, raw, 0) as out:
        out.write("".join(lines).encode())
    print(len(lines), "forms")


if __name__ == "__main__":
    main()
