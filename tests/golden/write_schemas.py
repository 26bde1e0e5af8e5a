#!/usr/bin/env python3
"""Writes src/schema/aten_schemas.inc: one schema text a line, sorted by name.

    python3 tests/golden/write_schemas.py

The recorded ops come from facts/propagate/ops.json.gz. Ops that the reference takes apart before it
looks at placements are not recorded; their texts come from the PyTorch of this Python.
"""

import gzip
import json
import pathlib

import torch

HERE = pathlib.Path(__file__).parent
RECORDED = HERE / "facts" / "propagate" / "ops.json.gz"
TABLE = HERE.parent.parent / "src" / "schema" / "aten_schemas.inc"


def name_of(schema):
    return schema.split("(")[0]


def main():
    texts = {}
    for schema in map(str, torch._C._jit_get_all_schemas()):
        name = name_of(schema)
        on_tensors = name.startswith("aten::") and "Tensor" in schema
        if on_tensors and torch._C._dispatch_has_kernel(name):
            texts[name] = schema
    with gzip.open(RECORDED, "rt") as file:
        for op in json.load(file)["ops"]:
            texts[name_of(op["schema"])] = op["schema"]
    lines = [texts[name] for name in sorted(texts)]
    TABLE.write_text('R"ATEN(\n' + "\n".join(lines) + '\n)ATEN"\n')
    print(f"{len(lines)} schemas")


if __name__ == "__main__":
    main()
