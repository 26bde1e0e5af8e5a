#!/usr/bin/env python3
"""Files that `shardlab reshard` writes are read by PyTorch's DCP and by the package safetensors.

    checkpoints_test.py SHARDLAB CHECKPOINTS

CHECKPOINTS is the folder of recorded checkpoints. Skipped (77) by a Python without both packages.
"""

import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77
# Each with a mesh, and placements of all matrices.
LAYOUTS = [
    ("fsdp_2", "x=3", "[_@x, _]"),
    ("fsdp_tp_2x2", "dp=2,tp=2", "[_@(tp,dp), _]"),
    ("fsdp_tp_2x2_uneven", "dp=2,tp=2", "[_@dp~2, _]"),  # rows that are not next to each other
    ("fsdp_4_empty", "x=4", "[_, _@x]"),
    ("hf_2_consolidated_integers", "x=2", "[_@x, _]"),
    ("dtypes_2", "x=2", "[_, _@x]"),
    ("transposed_2", "x=2,y=2", "[_@x, _@y]"),
]


def sum_of(tensor):
    import torch

    flat = tensor.contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(flat.numpy().tobytes()).hexdigest()


def differences(kind, found, facts):
    return [
        f"{kind}: {name}"
        for name, fact in facts["tensors"].items()
        if name not in found
        or list(found[name].shape) != fact["shape"]
        or sum_of(found[name]) != fact["sha256"]
    ]


def loaded_by_dcp(folder, like):
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

    state = {name: torch.zeros_like(tensor) for name, tensor in like.items()}
    dcp.load(state, storage_reader=HuggingFaceStorageReader(str(folder)))
    return state


def main():
    try:
        import torch.distributed.checkpoint  # noqa: F401
        from safetensors.torch import load_file
    except ImportError as error:
        print(f"skipped: {error}")
        return SKIPPED
    shardlab, root = sys.argv[1], pathlib.Path(sys.argv[2])
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, mesh, placements in LAYOUTS:
            facts = json.loads((root / f"{name}.json").read_text(encoding="utf-8"))
            one, ranks = pathlib.Path(scratch, name + ".safetensors"), pathlib.Path(scratch, name)
            matrices = [n for n, fact in facts["tensors"].items() if len(fact["shape"]) == 2]
            to = [part for n in matrices for part in ("--to", f"{n} = {placements}")]
            for command in ([one], [ranks, "--mesh", mesh, *to]):
                subprocess.run([shardlab, "reshard", root / name, *command], check=True)
            whole = load_file(one)
            wrong += differences(f"safetensors {name}", whole, facts)
            wrong += differences(f"DCP {name}", loaded_by_dcp(ranks, whole), facts)
    print("\n".join([*wrong, f"{2 * len(LAYOUTS)} reads, {len(wrong)} tensors wrong"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
