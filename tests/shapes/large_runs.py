#!/usr/bin/env python3
"""Shipped scenarios on large shape-only meshes.

    large_runs.py PROGRAM SCENARIOS

Runs every scenario under SCENARIOS on 65,536 ranks, and the Megatron MLP on 1,048,576, on the
backend `fake`, one process each. Prints processor time, memory and classes of each. A run fails
when it takes longer or more memory than the limits below, which are generous, when it ends with an
error that the scenario does not expect, or when an expected error does not come; a program that
reads values ends at that line. Types and counts that a scenario expects are for its own mesh and
are ignored here: on so many ranks most tensor dims are too short to be cut.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tomllib

RANKS = 65536
TIME_LIMIT_S = 60
# The address sanitizer, for which `tests/run --sanitize` sets this option, takes a multiple.
SANITIZED = "allocator_may_return_null" in os.environ.get("ASAN_OPTIONS", "")
MEMORY_LIMIT_MIB = 4096 if SANITIZED else 1024

# Some dims that the mesh cuts must be as long as the mesh dim: otherwise an implicit redistribution
# would be needed, which these scenarios forbid. In all others the last mesh dim grows until there
# are enough ranks. If every rank takes another piece by its own number, each is a class of its own,
# and the mesh is smaller. A program that is written for its number of ranks has these: a pipeline
# with a row of its schedule for each, a ring of a few.
SETTINGS = {
    "attention_heads": {"mesh.tp": 65536, "params.heads": 65536},
    "any_sender": {"mesh.pp": 3},
    "any_sender_and_buffers": {"mesh.pp": 3},
    "data_tensor_3d": {"mesh.tp": 16384, "params.hidden": 8192},
    "dual_pipe_v": {"mesh.pp": 4},
    "experts_on_views": {"mesh.dp": 4},
    "stage_on_its_slice": {"mesh.pp": 2},
    "stages_on_slices": {"mesh.pp": 2},
    "training_views": {"mesh.w": 16},
    "views_of_the_ranks": {"mesh.w": 8},
    "first_use": {"mesh.cp": 4},
    "fsdp_linear": {"mesh.dp": 65536, "params.batch": 65536, "params.hidden": 65537},
    "fsdp_three_layers": {"mesh.dp": 65536, "params.batch": 65536, "params.hidden": 65537},
    "fsdp": {"mesh.fsdp": 65536, "params.batch": 65536, "params.hidden": 65536},
    "gpipe": {"mesh.pp": 4},
    "halo_convolution": {"mesh.tp": 32768, "params.width": 131070},
    "head_on": {"mesh.pp": 2},
    "hidden_wait": {"mesh.cp": 3},
    "hsdp_mlp": {"mesh.shard": 32768, "params.batch": 65536, "params.hidden": 32769},
    # Uneven pieces that two meshes cut in other ways move by messages: each rank is a class.
    "modules_on_slices": {"mesh.tp": 2},
    "pipeline_of_two_meshes": {"mesh.tp": 2},
    "interleaved": {"mesh.pp": 4},
    "interleaved_one_forward_one_backward": {"mesh.pp": 4},
    "looped_bfs": {"mesh.pp": 4},
    "megatron_functions_sequence": {"mesh.tp": 8},
    "megatron_mlp": {"mesh.dp": 8, "mesh.tp": 8192, "params.hidden": 2049},
    "megatron_mlp_sequence": {"mesh.tp": 65536, "params.tokens": 65537, "params.hidden": 16385},
    "no_hidden_wait": {"mesh.cp": 3},
    "one_forward_one_backward": {"mesh.pp": 4},
    "pipeline": {"mesh.pp": 3},
    "ring_attention": {"mesh.cp": 16, "params.T": 32},
    "small": {"mesh.dp": 32768, "params.B": 65536},
    "torch_distributed": {"mesh.dp": 64},
    "spellings_of_torch": {"mesh.tp": 2},
    "tp": {"mesh.tp": 65536, "params.hidden": 65536},
    "two_groups": {"mesh.dp": 2},
    "ulysses": {"mesh.sp": 4},
    "zbv": {"mesh.pp": 4},
    "zero_bubble": {"mesh.pp": 3},
    "zero_by_hand": {"mesh.dp": 256},
    "zero_one": {"mesh.dp": 256},
    "zero_three": {"mesh.dp": 256},
    "zero_two": {"mesh.dp": 256},
}
LLAMA = {"mesh.dp": 8192, "params.B": 8192}
# Errors of programs that read values or make a group across the mesh.
REFUSED = ("a shape-only device holds no values to read",
           "a group that is not a line of the scenario's mesh",
           "views of all its ranks, in one order")
MILLION = {"mesh.dp": 8, "mesh.tp": 131072, "params.hidden": 32769}

# Runs a command and writes its cost to a file descriptor: processor time in s, memory in MiB.
MEASURE = """
import os, resource, subprocess, sys
code = subprocess.run(sys.argv[2:]).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
report = f"{used.ru_utime + used.ru_stime} {used.ru_maxrss / 1024}"
os.write(int(sys.argv[1]), report.encode())
sys.exit(code)
"""


def grown(table):
    """The last mesh dim longer; as many ranks outside of the mesh as before."""
    mesh = {name: size for name, size in table["mesh"].items() if name != "ranks"}
    *others, last = mesh
    rest, size = 1, 1
    for name, count in mesh.items():
        size *= count
        rest *= count if name in others else 1
    outside = table.get("world", size) - size
    settings = {f"mesh.{last}": (RANKS - outside) // rest}
    return settings | ({"world": RANKS} if outside else {})


def measured(program, path, settings):
    """(a list of the --json reports or None, processor s, MiB, stderr)"""
    command = [program, "run", "--json", "--backend", "fake", str(path)]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    read_end, write_end = os.pipe()
    measure = ["timeout", str(TIME_LIMIT_S), sys.executable, "-c", MEASURE, str(write_end)]
    done = subprocess.run(
        measure + command, capture_output=True, encoding="utf-8", pass_fds=[write_end], check=False
    )
    os.close(write_end)
    with os.fdopen(read_end) as report:
        seconds, memory = (float(figure) for figure in (report.read() or "0 0").split())
    results = [json.loads(line) for line in done.stdout.splitlines()]
    message = done.stderr or f"no answer within {TIME_LIMIT_S} s"
    return results or None, seconds, memory, message


def judge(table, results):
    """Why the runs are not as they should be, or None."""
    expects = table.get("expect", {})
    for result in results:
        if len(result["classes"]) < 1:
            return "no classes"
        for wanted in ("error", "verdict"):
            met = [e["met"] for e in result["expectations"] if e["what"] == wanted]
            if wanted in expects and met != [True]:
                return f"expected {wanted} {expects[wanted]}"
        error = result.get("error", {}).get("text", "")
        if any(text in error for text in REFUSED):
            continue
        # On shapes a receive from any rank takes from the lowest. Another may need that message.
        late = any("depend on the order of ranks" in text for text in result["warnings"])
        if late and error.startswith("deadlock"):
            continue
        if "error" in result and not {"error", "verdict"} & expects.keys():
            return result["error"]["text"]
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("scenarios", type=pathlib.Path)
    arguments = parser.parse_args()
    # Programs of the zoo have their sizes as numbers.
    paths = sorted(p for p in arguments.scenarios.rglob("*.toml") if p.parent.name != "zoo")
    cases = [
        (path, SETTINGS.get(path.stem) or (LLAMA if path.stem[0].isdigit() else None))
        for path in paths
    ]
    cases.append((arguments.scenarios / "models/megatron_mlp.toml", MILLION))
    failed = 0
    for path, settings in cases:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        results, seconds, memory, message = measured(
            arguments.program, path, settings or grown(table)
        )
        why = judge(table, results) if results else message
        if memory > MEMORY_LIMIT_MIB:
            why = f"more than {MEMORY_LIMIT_MIB} MiB"
        classes = ",".join(str(len(result["classes"])) for result in results or [])
        ranks = results[0]["ranks"] if results else RANKS
        print(
            f"{'FAILED' if why else 'ok':6} {path.stem:24} {ranks:9,} ranks in {classes:>3} classes"
            f"  {seconds:6.2f} s  {memory:5.0f} MiB" + (f"\n       {why}" if why else "")
        )
        failed += bool(why)
    return 1 if failed or len(cases) < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
