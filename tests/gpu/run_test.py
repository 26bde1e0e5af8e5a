#!/usr/bin/env python3
"""tests/gpu/run on a machine without GPUs: exit code 77, and no record. Its dry run has ranks that
share a GPU where NCCL lets them.

usage: run_test.py RUN [NCCL_DOUBLE BUILD SCENARIO]     SCENARIO has 4 ranks
"""

import os
import pathlib
import subprocess
import sys
import tempfile


def dry_run_shares_a_gpu(run, double, build, scenario):
    stages = {}
    for version in ("22809", "23003"):
        done = subprocess.run(
            [run, "--gpus", "1", "--build", build, "--dry-run", "--scenarios", scenario],
            env=os.environ | {"SHARDLAB_NCCL_LIBRARY": double,
                              "SHARDLAB_NCCL_DOUBLE_VERSION": version},
            capture_output=True, encoding="utf-8", timeout=120, check=False)
        stages[version] = [line[3:] for line in done.stdout.splitlines()
                           if line.startswith("## ") and "one GPU" in line]
    expected = [f"{what}, {ranks} ranks on one GPU" for ranks in (2, 4) for what in (
        "Conformance", "Conformance with calls compared", "Failures",
        "A rank is stopped or killed")]
    expected += [f"{what}, 2 ranks on one GPU: {said}" for what, said in (
        ("1F1B", "ends"), ("1F1B with deferred receives", "hangs"),
        ("1F1B with deferred receives, small", "either"), ("Two sends head on", "hangs"),
        ("Two sends head on, small", "either"), ("Two groups in two orders, one stream", "hangs"),
        ("Two groups in two orders, a stream each", "either"))]
    if (stages["22809"] == ["Several ranks on one GPU"] and
            stages["23003"][:-1] == expected and
            stages["23003"][-1].endswith("on one GPU that ranks share")):
        return True
    print(stages)
    return False


def main():
    run = pathlib.Path(sys.argv[1])
    if len(sys.argv) > 2 and not dry_run_shares_a_gpu(run, *sys.argv[2:]):
        return 1
    record = run.parent / "last_run.md"
    before = record.read_text(encoding="utf-8") if record.exists() else None
    with tempfile.TemporaryDirectory() as empty:
        # No nvidia-smi, even if this machine has one.
        for tool in ("bash", "dirname", "grep"):
            found = next(
                pathlib.Path(folder, tool)
                for folder in os.environ["PATH"].split(":")
                if pathlib.Path(folder, tool).exists()
            )
            pathlib.Path(empty, tool).symlink_to(found)
        done = subprocess.run(
            [run], env={"PATH": empty}, capture_output=True, encoding="utf-8", timeout=60
        )
    after = record.read_text(encoding="utf-8") if record.exists() else None
    expected = "no GPU here: nothing was run, no figure is claimed\n"
    if (done.returncode, done.stderr, after) == (77, expected, before):
        return 0
    print(done)
    return 1


if __name__ == "__main__":
    sys.exit(main())
