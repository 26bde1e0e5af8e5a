#!/usr/bin/env python3
"""The recorder, where PyTorch is installed: it changes no bit of a program, scripts run unedited,
and parts that it cannot see are named. Skipped (77) where it or NumPy is not.

    recorder_test.py PROGRAM ROOT [PART/PARTS]    2/6: every sixth test, from the second on
"""

import contextlib
import json
import pathlib
import re
import signal
import subprocess
import sys
import time
import types
import unittest
import zlib

import program

program.need("torch", "numpy")

import torch.nn  # noqa: E402

ROOT = pathlib.Path(sys.argv[2]).resolve()
sys.path[:0] = [str(ROOT / "sim/record_torch"), str(ROOT / "tests/golden/recordings")]

import parallel  # noqa: E402
import programs  # noqa: E402
import shardlab_record  # noqa: E402

SCRIPT = """
import sys, torch
print("arguments", sys.argv[1:])
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 8)), torch.randint(0, 4, (16,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step)
"""


PARALLEL_SCRIPT = """
import os, torch, torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import *
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),), mesh_dim_names=("tp",))
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(3):
    loss = model(torch.randn(4, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
"""


# Cutting its parameters is no part of a step.
SHARDED_SCRIPT = """
import torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(7, 9), torch.nn.GELU(), torch.nn.Linear(9, 5))
for layer in (model[0], model):
    fully_shard(layer)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
for last in (False, True):
    model.set_requires_gradient_sync(last)
    model(torch.randn(3, 7)).square().mean().backward()
optimizer.step()
dist.destroy_process_group()
"""


# The second rank alone takes padding off its piece of three rows.
UNEVEN_SCRIPT = """
import torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)
weight = torch.nn.Parameter(distribute_tensor(torch.randn(3, 4), mesh, [Shard(0)]))
optimizer = torch.optim.SGD([weight], lr=0.1)
(distribute_tensor(torch.randn(5, 4), mesh, [Replicate()]) @ weight.t()).square().sum().backward()
with torch.no_grad():
    whole = weight.grad.full_tensor()
    weight.grad.copy_(distribute_tensor(whole / whole.norm(), mesh, [Shard(0)]))
optimizer.step()
dist.destroy_process_group()
"""


# The second stage receives before its first forward.
PIPELINE_SCRIPT = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
last = dist.get_rank() == 1
torch.manual_seed(dist.get_rank())
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    for batch in range(2):
        given = torch.randn(4, 8)
        if last:
            dist.batch_isend_irecv([dist.P2POp(dist.irecv, given, 0)])[0].wait()
            given.requires_grad_()
        result = model(given)
        if last:
            result.square().mean().backward()
            dist.send(given.grad, 0)
        else:
            dist.send(result.detach(), 1)
            gradient = torch.empty(4, 8)
            dist.recv(gradient, 1)
            result.backward(gradient)
    optimizer.step()
"""


INPUTS_SCRIPT = """
import torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in range(40):
    given = torch.randn(4, 8).requires_grad_()
    model(given.tanh()).square().mean().backward()
optimizer.step()
"""


STACKED_SCRIPT = """
import torch
from torch.func import functional_call, stack_module_state, vmap
models = [torch.nn.Linear(8, 4) for _ in range(3)]
stacked, _ = stack_module_state(models)
stacked = {name: own.detach().requires_grad_() for name, own in stacked.items()}
base = torch.nn.Linear(8, 4, device="meta")
optimizer = torch.optim.AdamW(stacked.values(), lr=0.1)
x = torch.randn(6, 8)
for step in range(2):
    result = vmap(lambda own: functional_call(base, own, (x,)))(stacked)
    result.square().mean().backward()
    optimizer.step()
"""


# Each rank steps with some parameters by an optimizer inside, and sends them behind it.
NESTED_SCRIPT = """
import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.Tanh(), torch.nn.Linear(10, 3))
model = torch.nn.parallel.DistributedDataParallel(net)
optimizer = ZeroRedundancyOptimizer(
    model.parameters(), optimizer_class=torch.optim.AdamW, lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 6).chunk(world)[rank]).square().mean().backward()
    optimizer.step()
"""

LBFGS_SCRIPT = """
import torch
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Tanh(), torch.nn.Linear(9, 3))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=3)
x = torch.randn(6, 6)
for _ in range(2):
    def loss():
        optimizer.zero_grad()
        result = model(x).square().mean()
        result.backward()
        return result
    optimizer.step(loss)
"""


# The first scatter reads behind the memory of what its root gives, the second does not.
SCATTER_SCRIPT = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
weight = torch.nn.Parameter(torch.randn(4, 6))
optimizer = torch.optim.SGD([weight], lr=0.1)
total = weight.square().sum()
for width in (1, 6):
    got = torch.zeros(4, 6)
    parts = [torch.randn(4, width).expand(4, 6) for _ in range(ranks)] if rank == 1 else None
    dist.scatter(got, parts, 1)
    total = total + (weight * got).sum() if width == 6 else total
total.backward()
dist.all_reduce(weight.grad)
optimizer.step()
dist.destroy_process_group()
"""


# Ranks that wait for each other, or not. Patience counts from here; torch.optim takes seconds.
WAITING_SCRIPT = """
import sys, time, datetime, torch, torch.distributed as dist
kind, seconds = sys.argv[1], float(sys.argv[2])
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=seconds))
rank, ranks = dist.get_rank(), dist.get_world_size()
weight, x = torch.ones(4, requires_grad=True), torch.full((4,), 3.0)
if kind == "before" and rank == 0:
    dist.barrier()
dist.broadcast(x, 0)
(weight * x).sum().backward()
if kind == "messages":
    dist.recv(x, (rank + 1) % ranks)
    dist.send(weight.grad, (rank - 1) % ranks)
elif kind == "handles":
    handle = dist.irecv(x, (rank + 1) % ranks)
    handle.wait()
elif kind == "shapes" and rank == 1:
    torch.mm(x, x)
elif kind == "ends" and rank == 1:
    sys.exit()
elif kind == "sleeps":
    time.sleep(60)
elif kind != "skips" or rank != 1:
    dist.all_reduce(weight.grad)
for peer in range(ranks - 1):
    if rank == peer:
        dist.send(x, peer + 1)
    elif rank == peer + 1:
        dist.recv(x, peer)
with torch.no_grad():
    weight -= weight.grad
"""


# For each case two jobs of two processes: one plain, one that records its second step of three.
# Each process writes a hash of its parameters. Processes are forked, since PyTorch takes seconds to
# import.
PROCESSES_SCRIPT = """
import contextlib, hashlib, os, socket, sys, torch, torch.distributed as dist
sys.path[:0] = sys.argv[1:3]
import parallel, shardlab_record

def main(rank, port, name, level, recorded):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=port)
    os.chdir(f"{name}.{level}")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    model, optimizer, step = parallel.PROCESSES[name](2)
    for turn in range(3):
        with (shardlab_record.record("step.json.gz", model, optimizer, level=level)
              if recorded and turn == 1 else contextlib.nullcontext()):
            step()
    kept = [shardlab_record._pieces(x)[0].detach().numpy().tobytes() for x in model.parameters()]
    with open(f"{rank}.{'recorded' if recorded else 'plain'}", "w") as file:
        file.write(hashlib.sha256(b"".join(kept)).hexdigest())
    dist.barrier()
    dist.destroy_process_group()

for case in sys.argv[3:]:
    name, level = case.split(":")
    os.mkdir(f"{name}.{level}")
    for recorded in False, True:
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = str(free.getsockname()[1])
        torch.multiprocessing.start_processes(
            main, (port, name, level, recorded), 2, start_method="fork")
"""


# Parameters without a name, which are DTensors already.
WHOLE = """
import os, torch, torch.distributed as dist
from torch.distributed.tensor import Shard, Replicate, distribute_tensor
os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
dist.init_process_group("gloo")
mesh = dist.device_mesh.init_device_mesh("cpu", (1,), mesh_dim_names=("tp",))
up = torch.nn.Parameter(distribute_tensor(torch.randn(8, 4), mesh, [Shard(0)]))
down = torch.nn.Parameter(distribute_tensor(torch.randn(4, 8), mesh, [Shard(1)]))
x = distribute_tensor(torch.randn(6, 4), mesh, [Replicate()])
optimizer = torch.optim.SGD([up, down], 0.1)
((x @ up.t()).relu() @ down.t()).square().mean().backward()
optimizer.step()
"""


APART_SCRIPT = """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()

class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        parts = [torch.empty_like(x) for _ in range(world)]
        dist.all_gather(parts, x)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.chunk(world)[rank]

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 5)
        self.register_buffer("center", torch.zeros(5))

    def forward(self, x):
        y = self.linear(x)
        with torch.no_grad():
            total = y.sum(0)
            dist.all_reduce(total)
            self.center = total / (len(x) * world)
        return y

torch.manual_seed(1)
model, x = Model(), torch.randn(8, 6).chunk(world)[rank]
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
y = model(x)
if rank == 1:
    y = y + torch.zeros(5)
labels = torch.arange(rank * len(x), (rank + 1) * len(x))
torch.nn.functional.cross_entropy(y @ Gather.apply(y).T, labels).backward()
for p in model.parameters():
    dist.all_reduce(p.grad)
    p.grad /= world
optimizer.step()
dist.destroy_process_group()
"""


class Recorder(program.Program):
    def path(self):
        return str(self.folder / "step.json.gz")

    def outcome(self, name, **options):
        """Loss, parameters and gradients of one step; with options, of a recorded one."""
        torch.manual_seed(0)
        model, optimizer, step = programs.PROGRAMS[name]()
        if options:
            with shardlab_record.record(self.path(), model, optimizer, **options):
                loss = step()
        else:
            loss = step()
        kept = [loss, *model.parameters(), *(p.grad for p in model.parameters())]
        return [None if x is None else x.detach().clone() for x in kept]

    def test_recording_changes_no_bit_and_replays(self):
        for name in programs.PROGRAMS:
            plain = self.outcome(name)
            for level in ("both", "op"):
                with self.subTest(name=name, level=level):
                    recorded = self.outcome(name, level=level)
                    for a, b in zip(plain, recorded, strict=True):
                        self.assertTrue(a is b is None or torch.equal(a, b))
                    self.assertIn(" 0 differ", self.fine("replay", "step.json.gz"))

    def outcome_of_ranks(self, name, recorded):
        """The same, of all ranks: one list with the values of each."""
        with shardlab_record.simulate(4):
            torch.manual_seed(0)
            model, optimizer, step = parallel.PROGRAMS[name](4)
            recorder = contextlib.nullcontext()
            if recorded:
                recorder = shardlab_record.record(self.path(), model, optimizer)
            with recorder:
                loss = step()
            kept = [loss, *model.parameters(), *(p.grad for p in model.parameters())]
            return [piece.detach().clone() for x in kept if x is not None
                    for piece in shardlab_record._pieces(x)]

    def changes_no_bit_of_any_rank(self, *names):
        for name in names:
            with self.subTest(name=name):
                plain, recorded = (self.outcome_of_ranks(name, x) for x in (False, True))
                for a, b in zip(plain, recorded, strict=True):
                    self.assertTrue(torch.equal(a, b))
                report = json.loads(self.fine("replay", "--json", "step.json.gz"))
                self.assertEqual((report["differ"], report["rules"], report["skipped"]),
                                 (0, [], 0))

    def test_recording_changes_no_bit_of_any_rank(self):
        self.changes_no_bit_of_any_rank("mlp_tp", "mesh_2d")

    def test_recording_changes_no_bit_of_ranks_under_loss_parallel(self):
        self.changes_no_bit_of_any_rank("llama_sp_loss")

    def test_recording_changes_no_bit_of_ranks_that_recompute(self):
        self.changes_no_bit_of_any_rank("llama_checkpoint")

    def values(self, name, kind, mistake=None, **options):
        """Values of one step of a job are written to v.json.gz; a mistake is made in the model."""
        torch.manual_seed(0)
        model, optimizer, step = programs.PROGRAMS[name]()
        handle = mistake(model) if mistake else None
        with shardlab_record.dump_values(self.folder / "v.json.gz", model, values=kind, **options):
            loss = step()
        if handle:
            handle.remove()
        return [loss, *model.parameters()]

    def test_writing_values_changes_no_bit_and_names_a_wrong_module(self):
        plain = self.outcome("llama")
        self.outcome("llama", level="both")
        norm = lambda model: model.layers[1].attention_norm.register_forward_hook(
            lambda own, args, output: output * 1.01)
        gradient = lambda model: model.layers[0].feed_forward.w2.weight.register_hook(
            lambda gradient: gradient / 2)
        for kind in ("fp", "stats", "whole"):
            with self.subTest(kind):
                for a, b in zip(plain, self.values("llama", kind)):
                    self.assertTrue(torch.equal(a, b))
                self.assertIn("ok: ", self.fine("blame", "step.json.gz", "v.json.gz"))
                for mistake, named in ((norm, "layers.1.attention_norm"),
                                       (gradient, "layers.0.feed_forward.w2.weight.grad")):
                    self.values("llama", kind, mistake)
                    code, output, errors = self.shardlab("blame", "step.json.gz", "v.json.gz")
                    self.assertEqual((code, errors), (1, ""))
                    self.assertRegex(output.splitlines()[1], rf"^{named}: the first of")
        self.values("llama", "fp", norm, modules="layers.*.attention")
        _, output, _ = self.shardlab("blame", "step.json.gz", "v.json.gz")
        self.assertIn("layers.1.attention: the first of", output)
        with self.assertRaisesRegex(ValueError, "no module is named layer"):
            self.values("llama", "fp", modules="layer")

    def test_a_script_of_several_ranks_runs_unedited(self):
        (self.folder / "train.py").write_text(PARALLEL_SCRIPT, encoding="utf-8")
        code, _, errors = self.shardlab(
            "record", "--python", sys.executable, "--ranks", "4", "train.py")
        self.assertEqual(code, 0, errors)
        self.assertRegex(self.fine("replay", "step.json.gz"), r"4 ranks, \d+ ops: .* 0 differ")

    def test_recording_changes_no_bit_of_processes(self):
        script = self.folder / "processes.py"
        script.write_text(PROCESSES_SCRIPT, encoding="utf-8")
        cases = ("fsdp:both", "ddp:both", "llama_sp:both", "pipeline:both", "experts:both",
                 "fsdp:pieces")
        subprocess.run([program.warm_python(), script.name, *sys.path[:2], *cases], cwd=self.folder,
                       check=True, capture_output=True, timeout=600)
        for case in cases:
            with self.subTest(case):
                place = self.folder / case.replace(":", ".")
                for rank in "01":
                    self.assertEqual((place / f"{rank}.plain").read_text(),
                                     (place / f"{rank}.recorded").read_text())
                ranks = [f"{place.name}/step.r{rank}.json.gz" for rank in "01"]
                self.fine("merge", *ranks, "--out", "step.json.gz")
                report = json.loads(self.fine("replay", "--json", "step.json.gz"))
                self.assertEqual((report["differ"], report["rules"], report["skipped"]),
                                 (0, [], 0))

    def test_uneven_cuts_are_seen_in_strided_shards(self):
        from torch.distributed.tensor.placement_types import _StridedShard

        for rows, uneven in (48, False), (50, True), (0, False):
            placements = (_StridedShard(0, split_factor=2), torch.distributed.tensor.Shard(0))
            tensor = types.SimpleNamespace(shape=(rows, 3), placements=placements,
                                           device_mesh=types.SimpleNamespace(shape=(2, 2)))
            self.assertEqual(shardlab_record._is_uneven(tensor), uneven, rows)

    def test_a_script_of_processes_is_recorded_and_merged(self):
        (self.folder / "train.py").write_text(PARALLEL_SCRIPT, encoding="utf-8")
        code, output, errors = self.shardlab(
            "record", "--python", sys.executable, "--ranks", "2", "--processes", "train.py")
        self.assertEqual(code, 0, errors)
        self.assertIn("step.json.gz: ", output)
        self.assertRegex(self.fine("replay", "step.json.gz"), r"2 ranks, \d+ ops: .* 0 differ")

    def test_memory_behind_a_tensor_that_gloo_reads_is_named_at_the_root(self):
        (self.folder / "script.py").write_text(SCATTER_SCRIPT, encoding="utf-8")
        for ranks in ("2", "3"):
            with self.subTest(ranks):
                self.fine("record", "--python", program.warm_python(), "--ranks", ranks,
                          "--processes", "--out", "step.json.gz", "script.py")
                report = self.fine("replay", "step.json.gz")
                self.assertEqual(report.count("REFERENCE"), 1, report)
                self.assertRegex(report, "script.py:12  c10d.scatter_.default")
                self.assertIn("what is stored behind the first one, on rank 1", report)
                self.assertRegex(report, r" 0 differ, .* 1 in which PyTorch is wrong")
                self.assertGreater(int(re.search(r"(\d+) results agree", report)[1]), 20)

    def test_a_step_begins_behind_fully_shard(self):
        (self.folder / "train.py").write_text(SHARDED_SCRIPT, encoding="utf-8")
        code, _, errors = self.shardlab(
            "record", "--python", program.warm_python(), "--ranks", "2", "--processes", "train.py")
        self.assertEqual(code, 0, errors)
        report = json.loads(self.fine("replay", "--json", "step.json.gz"))
        self.assertEqual((report["differ"], report["skipped"], report["missing"]), (0, 0, []))

    def test_ranks_that_part_inside_of_a_dtensor_are_recorded_by_pieces(self):
        (self.folder / "train.py").write_text(UNEVEN_SCRIPT, encoding="utf-8")
        code, _, errors = self.shardlab(
            "record", "--python", program.warm_python(), "--ranks", "2", "--processes", "train.py")
        self.assertEqual(code, 0, errors)
        self.assertIn("ranks part inside of a DTensor: once more with --level pieces", errors)
        report = json.loads(self.fine("replay", "--json", "step.json.gz"))
        self.assertEqual((report["differ"], report["skipped"], report["missing"]), (0, 0, []))

    def test_the_step_of_an_optimizer_in_another_one_ends_no_step(self):
        (self.folder / "train.py").write_text(NESTED_SCRIPT, encoding="utf-8")
        for skip in ("0", "1"):
            for ranks in ("1", "2"):
                code, _, errors = self.shardlab(
                    "record", "--python", program.warm_python(), "--ranks", ranks, "--processes",
                    "--skip", skip, "--out", f"of_{ranks}.json.gz", "train.py")
                self.assertEqual(code, 0, errors)
            self.assertRegex(self.fine("replay", "of_2.json.gz"), r"2 ranks, \d+ ops: .* 0 differ")
            self.assertIn("ok: ", self.fine("blame", "of_1.json.gz", "of_2.json.gz"))

    def events(self, name):
        """The lines of a recording; elements follow them in the file."""
        return zlib.decompressobj(31).decompress((self.folder / name).read_bytes()).decode()

    def test_functions_and_buffers_of_ranks_that_part_are_recorded(self):
        """Rank 1 makes one call more."""
        (self.folder / "train.py").write_text(APART_SCRIPT, encoding="utf-8")
        for ranks in ("1", "2"):
            self.fine("record", "--python", program.warm_python(), "--ranks", ranks, "--processes",
                      "--out", f"{ranks}.json.gz", "train.py")
        code, output, _ = self.shardlab("blame", "1.json.gz", "2.json.gz")
        self.assertEqual(code, 1, output)
        self.assertIn("dist.all_reduce(gradient)    # of each that the backward of Gather", output)
        ends = re.findall(r'{"k":"check",.*"name":"center"', self.events("2.json.gz"))
        self.assertEqual(len(ends), 2)

    def test_a_pipeline_is_recorded_from_its_first_message_on(self):
        (self.folder / "train.py").write_text(PIPELINE_SCRIPT, encoding="utf-8")
        for skip in ("0", "1"):
            code, _, errors = self.shardlab("record", "--python", program.warm_python(), "--ranks",
                                            "2", "--processes", "--skip", skip, "train.py")
            self.assertEqual(code, 0, errors)
            self.assertRegex(self.fine("replay", "step.json.gz"), r"2 ranks, \d+ ops: .* 0 differ")

    def test_a_new_input_may_have_the_identity_of_a_dead_one(self):
        """Each input has a gradient and dies; the next one is no leaf that was written to."""
        (self.folder / "train.py").write_text(INPUTS_SCRIPT, encoding="utf-8")
        code, _, errors = self.shardlab("record", "--python", program.warm_python(), "train.py")
        self.assertEqual(code, 0, errors)
        self.assertEqual(self.events("step.json.gz").count('"k":"backward"'), 40)

    def test_a_script_that_fails_with_all_ranks_in_one_process_is_told_of_processes(self):
        (self.folder / "train.py").write_text(PIPELINE_SCRIPT, encoding="utf-8")
        code, _, errors = self.shardlab(
            "record", "--python", program.warm_python(), "--ranks", "2", "train.py")
        self.assertEqual(code, 1)
        self.assertIn("shardlab record --ranks 2 --processes train.py", errors)
        # An error of the script's own is the same in processes.
        other = PARALLEL_SCRIPT.replace("randn(4, 16)", "randn(4, 9)")
        (self.folder / "train.py").write_text(other, encoding="utf-8")
        code, _, errors = self.shardlab(
            "record", "--python", program.warm_python(), "--ranks", "2", "train.py")
        self.assertEqual(code, 1)
        self.assertNotIn("--processes", errors)
        self.assertNotIn("shardlab_record", errors)
        self.assertEqual(errors.count("\n  File "), 1, errors)

    def test_processes_end_with_the_code_of_the_first_that_fails(self):
        (self.folder / "train.py").write_text(
            "import os, sys, time\n"
            "time.sleep(60) if os.environ['RANK'] == '0' else sys.exit(7)\n", encoding="utf-8")
        code, _, _ = self.shardlab(
            "record", "--python", program.warm_python(), "--ranks", "2", "--processes", "train.py")
        self.assertEqual(code, 7)

    def waiting(self, kind, ranks, patience=0, timeout=600):
        """(code, errors) of ranks that wait; nothing of the recorder's own is printed."""
        (self.folder / "train.py").write_text(WAITING_SCRIPT, encoding="utf-8")
        code, output, errors = self.shardlab(
            "record", "--python", program.warm_python(), "--ranks", str(ranks), "--processes",
            "--patience", str(patience), "train.py", kind, str(timeout))
        self.assertNotIn("shardlab_record", errors)
        self.told, self.follow = errors.splitlines(), output.rpartition("; next: ")[2]
        return code, output + errors

    def out_of_patience(self, kind, ranks, *lines):
        """The patience with which the ranks get as far as these lines say: a loaded machine takes
        longer to get there."""
        for patience in (6, 25, 100):
            code, output = self.waiting(kind, ranks, patience)
            self.assertEqual(code, 1, output)
            if self.rank_lines() == list(lines):
                break
        self.assertEqual(self.rank_lines(), list(lines))
        return patience

    def rank_lines(self):
        return [line for line in self.told if line.startswith("  rank")]

    def is_a_hang(self, *lines):
        """The told ranks; the file is there, and shardlab finds the hang in it."""
        self.assertEqual(self.rank_lines(), list(lines))
        self.assertEqual([x.name for x in self.folder.glob("step.r*")], [])
        self.assertEqual(self.follow,
                         "shardlab prove step.json.gz, shardlab replay step.json.gz\n")
        code, output, errors = self.shardlab("prove", "step.json.gz")
        self.assertEqual(code, 1, output + errors)
        self.assertRegex(output, "^hangs where no message is buffered .* of buffers helps")
        self.assertEqual(self.shardlab("replay", "step.json.gz")[0], 1)
        return output

    def runs(self, *given):
        code, output = self.waiting("fine", *given)
        self.assertEqual(code, 0, output)
        self.assertIn("free of deadlock", self.fine("prove", "step.json.gz"))
        self.assertIn(" 0 differ", self.fine("replay", "step.json.gz"))

    def test_messages_that_wait_for_each_other_end_by_patience(self):
        for kind, line, call in (("messages", 12, "recv"), ("handles", 16, "irecv")):
            with self.subTest(kind):
                lines = (f"  rank 0      waits for {call} from rank 1 (train.py:{line})",
                         f"  rank 1      waits for {call} from rank 0 (train.py:{line})")
                patience = self.out_of_patience(kind, 2, *lines)
                self.assertEqual(self.told[0], "error: the script hangs: it has not made its steps "
                                 f"in {patience} s")
                proof = self.is_a_hang(*lines)
                self.assertRegex(proof, rf"rank 0  waits .*recv from rank 1 \(train.py:{line}\)")
        self.runs(2, 30)

    def test_ranks_that_skip_a_collective_are_named_by_those_that_wait(self):
        lines = ("  ranks 0, 2  wait for all_reduce with rank 1 (train.py:24)",
                 "  rank 1      waits for recv from rank 0 (train.py:29)")
        self.out_of_patience("skips", 3, *lines)
        self.is_a_hang(*lines)
        self.runs(3, 30)

    def test_a_stop_is_told_at_a_line_of_the_user(self):
        """A frame may have no line where a signal comes, and Python's own modules are no place."""
        own = sys._getframe()
        self.assertIn("unittest", own.f_back.f_code.co_filename)
        place = shardlab_record._place_of([(own, 7), (own.f_back, 3), (own, None)])
        self.assertTrue(place.endswith("recorder_test.py:7"), place)
        self.assertEqual(shardlab_record._place_of([(own.f_back, 3)]), "")

    def test_a_hang_before_the_first_event_is_told(self):
        lines = ("  rank 0      waits for barrier with rank 1 (train.py:8)",
                 "  rank 1      waits for broadcast with rank 0 (train.py:9)")
        self.out_of_patience("before", 2, *lines)
        self.assertEqual(self.told[1:3], list(lines))
        patience = self.out_of_patience("sleeps", 2, "  ranks 0-1   are at train.py:22")
        self.assertEqual(self.told[0], f"error: the script has not made its steps in {patience} s")

    def test_a_wait_that_the_backend_ends_is_a_hang(self):
        code, output = self.waiting("messages", 4, timeout=10)
        self.assertEqual(code, 1, output)
        self.assertRegex(output, r"error: the script hangs: Timed out waiting \d+ms for recv")
        self.is_a_hang(*(f"  rank {i}      waits for recv from rank {(i + 1) % 4} (train.py:12)"
                         for i in range(4)))
        self.runs(4, 0, 30)

    def test_a_rank_that_ends_early_is_told_with_those_that_wait(self):
        lines = ("  ranks 0, 2  wait for all_reduce with rank 1 (train.py:24)",
                 "  rank 1      has ended")
        code, output = self.waiting("ends", 3, patience=100)
        self.assertEqual(code, 1, output)
        self.is_a_hang(*lines)

    def test_a_rank_that_fails_is_told_of_by_its_own_lines(self):
        code, output = self.waiting("shapes", 2)
        self.assertEqual(code, 1, output)
        self.assertEqual([line for line in self.told if "File" in line],
                         ['  File "train.py", line 18, in <module>'])
        self.assertEqual(self.told[-2:], [
            "error: the script failed: RuntimeError",
            f"  fix         see that it runs by itself: {pathlib.Path(sys.executable).name} "
            "train.py"])
        self.assertNotIn("waits", output)

    def test_ranks_end_with_their_job(self):
        """Each rank has a file while it runs, which no rank that is left may keep."""
        (self.folder / "train.py").write_text(
            "import os, time\nopen('at.' + os.environ['RANK'], 'w').write(str(os.getpid()))\n"
            "time.sleep(90)\n", encoding="utf-8")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            python = program.warm_python() if number == signal.SIGINT else sys.executable
            with self.subTest(number.name):
                job = subprocess.Popen(
                    [program.PROGRAM, "record", "--python", python, "--ranks", "2",
                     "--processes", "train.py"], cwd=self.folder, stderr=subprocess.PIPE,
                    encoding="utf-8")
                marks = [self.folder / f"at.{rank}" for rank in range(2)]
                self.waits(lambda: all(mark.exists() and mark.read_text() for mark in marks))
                ranks = [pathlib.Path("/proc", mark.read_text()) for mark in marks]
                self.assertTrue(all(rank.exists() for rank in ranks))
                job.send_signal(number)
                errors = job.communicate(timeout=30)[1]
                self.waits(lambda: not any(rank.exists() for rank in ranks))
                if number != signal.SIGKILL:
                    self.assertEqual((job.returncode, errors),
                                     (128 + number, "error: interrupted\n"))
                for mark in marks:
                    mark.unlink()

    def waits(self, is_so):
        end = time.monotonic() + 60
        while not is_so():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def test_a_message_is_refused_by_name_and_place(self):
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        with shardlab_record.record(self.path()):
            torch.distributed.all_reduce_coalesced([torch.ones(2)])
        torch.distributed.destroy_process_group()
        code, _, errors = self.shardlab("replay", "step.json.gz")
        self.assertEqual(code, 2)
        self.assertRegex(errors, r"could not see .*c10d.*at \S*recorder_test.py:\d+")

    def test_a_write_that_no_op_makes_is_refused_by_place(self):
        def through_numpy(x):
            x.numpy()[0] = 5

        def unseen(x):
            with shardlab_record.no_python_dispatcher():
                with shardlab_record._disable_current_modes():
                    x.add_(1)

        for write, told in ((through_numpy, "a write through numpy"),
                            (unseen, "a write to a tensor that no op has made")):
            with self.subTest(write=write.__name__):
                x = torch.ones(4)
                with shardlab_record.record(self.path()):
                    y = x * 2
                    write(x)
                    y + x
                code, _, errors = self.shardlab("replay", "step.json.gz")
                self.assertEqual(code, 2)
                self.assertRegex(errors, told + r" at \S*recorder_test.py:\d+")

    def test_numbers_that_a_program_reads_are_named(self):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 4)
        x, sizes = torch.randn(9, 4), torch.tensor([4, 5])
        with shardlab_record.record(self.path(), model):
            parts = model(x).split((sizes + 0).tolist())
            sum(part.pow(2).sum() for part in parts).backward()
        self.assertIn(" 0 differ", self.fine("replay", "step.json.gz"))
        self.assertIn("ok", self.fine("run", "--summary", "step.json.gz"))
        code, _, errors = self.shardlab(
            "run", "step.json.gz", "--mesh", "dp=3", "--plan", "replicate")
        self.assertEqual(code, 2)
        self.assertRegex(errors, r"4 of tolist at \S*recorder_test.py:\d+ is a number of the")

    def test_views_of_a_batch_have_its_memory_where_there_are_only_shapes(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        for mode, values in ((contextlib.nullcontext, "none"), (FakeTensorMode, "fp"),
                             (FakeTensorMode, "none")):
            with self.subTest(mode=mode.__name__, values=values), mode():
                self.outcome("next_token", values=values)
                self.assertIn(" 0 differ", self.fine("replay", "step.json.gz"))
                self.assertIn("shapes only", self.fine(
                    "run", "--summary", "--mesh", "dp=2", "--plan", "fsdp", "step.json.gz"))

    def test_hooks_are_gone_afterwards(self):
        backward, grad = torch.autograd.backward, torch.autograd.grad
        self.outcome("two_batches", values="fp")
        self.assertIs(torch.autograd.backward, backward)
        self.assertIs(torch.autograd.grad, grad)
        self.assertEqual((backward.__code__.co_name, grad.__code__.co_name), ("backward", "grad"))
        self.assertFalse(torch.nn.modules.module._global_forward_hooks)
        self.assertNotIn("tolist", torch.Tensor.__dict__)
        self.assertNotIn("numpy", torch.Tensor.__dict__)

    def test_names_of_autograd_that_a_program_has_kept_are_seen(self):
        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, gradient):
                return gradient * 3

        twice, grad = Twice.apply, torch.autograd.grad
        model = torch.nn.Linear(4, 4)
        with shardlab_record.record(self.path(), model):
            x = torch.ones(2, 4).requires_grad_()
            slope, = grad(twice(model(x)).square().sum(), x)
            (twice(model(x)) * slope).square().sum().backward()
        run = self.fine("run", "--summary", "step.json.gz", "--mesh", "dp=2", "--plan", "fsdp")
        self.assertIn("gradients are PyTorch's, 0 differ", run)

    def test_tensors_that_an_iterator_gives_are_seen(self):
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
        x = torch.randn(6, 4)
        with shardlab_record.record(self.path(), model):
            slopes = torch.autograd.grad(
                iter([model(x).sum()]), model.parameters(), create_graph=True)
            fast = [p - 0.1 * slope for p, slope in zip(model.parameters(), slopes)]
            torch.tanh(x @ fast[0].t() + fast[1]).matmul(fast[2].t()).square().sum().backward()
        run = self.fine("run", "--summary", "step.json.gz", "--mesh", "dp=3", "--plan", "fsdp")
        self.assertIn("7 gradients are PyTorch's, 0 differ", run)

    def test_dtensors_of_one_process_are_compared(self):
        (self.folder / "train.py").write_text(WHOLE, encoding="utf-8")
        code, _, errors = self.shardlab("record", "--python", program.warm_python(), "train.py")
        self.assertEqual(code, 0, errors)
        self.assertRegex(self.fine("replay", "step.json.gz"), r"[1-9]\d results agree, 0 differ")
        for mesh in ("tp=2", "dp=2,tp=2"):
            run = self.fine("run", "--summary", "step.json.gz", "--mesh", mesh)
            self.assertIn("2 gradients are PyTorch's, 0 differ", run)

    def test_integers_become_numbers_of_the_program_s_default_dtype(self):
        weight = torch.ones(3, dtype=torch.float64, requires_grad=True)
        torch.set_default_dtype(torch.float64)
        try:
            with shardlab_record.record(self.path()):
                places = torch.arange(3)
                angles = 1 / 7 ** (places / 3)
                half = torch.full((3,), 0.5)
                loss = (angles * weight + places.sin() + half).sum()
                loss.backward()
        finally:
            torch.set_default_dtype(torch.float32)
        expected = [7 ** (-i / 3) for i in range(3)]
        torch.testing.assert_close(weight.grad, torch.tensor(expected, dtype=torch.float64))
        self.assertIn(" 0 differ", self.fine("replay", "step.json.gz"))
        run = self.fine("run", "--summary", "step.json.gz", "--mesh", "dp=2")
        self.assertIn("1 gradients are PyTorch's, 0 differ", run)

    def test_a_seed_of_each_rank_is_its_process_s(self):
        plain = torch.Generator().manual_seed(11)
        with shardlab_record.simulate(3):
            rank = torch.distributed.get_rank()
            own = torch.Generator().manual_seed(20 - 3 * rank)
            same = torch.Generator().manual_seed(5)
            self.assertIsInstance(own, torch.Generator)
            self.assertIsInstance(torch.default_generator, torch.Generator)
            self.assertNotIsInstance(3, torch.Generator)
            drawn = [torch.randn(2, generator=own), torch.rand(2, generator=same),
                     torch.empty(3).uniform_(generator=own), torch.randn(2, generator=plain)]
            own.manual_seed(rank)
            drawn.append(torch.randperm(4, generator=own))
            pieces = [shardlab_record._pieces(one) for one in drawn]
        for rank in range(3):
            own = torch.Generator().manual_seed(20 - 3 * rank)
            same, plain = torch.Generator().manual_seed(5), torch.Generator().manual_seed(11)
            expected = [torch.randn(2, generator=own), torch.rand(2, generator=same),
                        torch.empty(3).uniform_(generator=own), torch.randn(2, generator=plain)]
            expected.append(torch.randperm(4, generator=own.manual_seed(rank)))
            for got, one in zip(pieces, expected, strict=True):
                own_piece = got[rank if len(got) > 1 else 0]
                self.assertTrue(torch.equal(own_piece, one), (rank, own_piece, one))

    def test_a_gradient_that_has_no_memory_is_zero(self):
        x = torch.tensor([2.0, -3.0], requires_grad=True)
        with shardlab_record.record(self.path()):
            (torch.sgn(x) * 2).sum().backward()
        self.assertTrue(torch.equal(x.grad.clone(), torch.zeros(2)))
        self.assertIn(" 0 differ", self.fine("replay", "step.json.gz"))

    def test_choices_of_a_library_and_what_no_kernel_has_are_no_differences(self):
        """Eigenvalues have no order, a NaN hides rounding beside it, and no kernel has c32."""
        torch.manual_seed(1)
        for seed in range(3):
            matrix = torch.randn(5 + seed, 5 + seed, requires_grad=True)
            x, mask = torch.randn(6, 4, requires_grad=True), torch.rand(6, 4) < 0.5
            mask[1] = False
            with shardlab_record.record(self.path()):
                values, vectors = torch.linalg.eig(matrix)
                (vectors @ values.diag()).abs().sum().backward()
                torch.masked.softmax(x, 1, mask=mask).sum().backward()
                torch.masked.softmin(x, 1, mask=mask).sum().backward()
            report = self.fine("replay", "step.json.gz")
            self.assertIn(" 0 differ", report)
            self.assertNotIn("not judged", report)
        with shardlab_record.record(self.path()):
            torch.ones(3).chalf() + 1
            torch.ones(3) + 1
        report = self.fine("replay", "step.json.gz")
        self.assertIn("aten._to_copy.default: no kernel reads or writes c32\n", report)
        self.assertRegex(report, r"[1-9] results agree, 0 differ, .*not judged: [1-9]")

    def on_meshes(self, plans, *meshes):
        """A step on one device and on meshes, each right."""
        self.fine("replay", "step.json.gz")
        for mesh in meshes:
            for plan in plans:
                with self.subTest(mesh=mesh, plan=plan):
                    options = ["--mesh", mesh, "--plan", plan] if plan else ["--mesh", mesh]
                    code, run, notes = self.shardlab("run", "--summary", "step.json.gz", *options)
                    self.assertEqual(code, 0, run + notes)
                    self.assertIn(" 0 differ", run)
                    self.assertNotIn("left out", notes)

    def test_heads_and_times_that_ranks_cannot_share_are_gathered(self):
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(12, 2, 24, dropout=0.0, batch_first=True)
        optimizer = torch.optim.SGD(layer.parameters(), 0.1)
        x = torch.randn(6, 5, 12)
        with shardlab_record.record(self.path(), layer, optimizer):
            layer(x).square().mean().backward()
            optimizer.step()
        plans = ["megatron", "sequence", "fsdp", "fsdp+tp"]
        self.on_meshes(plans, "dp=2,tp=2", "dp=3", "dp=2,tp=3")

    def test_an_optimizer_writes_what_it_has_made(self):
        """Biases of 3 and 10 are shorter, or cut in another order, than what is written to them."""
        plans, meshes = ["megatron", "fsdp", "fsdp+tp"], ("dp=2,tp=2", "dp=3")
        for name, options in (("Adafactor", {"lr": 0.01}), ("NAdam", {}), ("Muon", {"lr": 0.01})):
            if not hasattr(torch.optim, name):
                continue
            torch.manual_seed(0)
            model = torch.nn.Sequential(
                torch.nn.Linear(6, 10), torch.nn.GELU(), torch.nn.Linear(10, 3))
            written = [p for p in model.parameters() if p.ndim == 2 or name != "Muon"]
            optimizer = getattr(torch.optim, name)(written, **options)
            with self.subTest(name):
                with shardlab_record.record(self.path(), model, optimizer):
                    model(torch.randn(6, 6)).square().mean().backward()
                    optimizer.step()
                self.on_meshes(plans, *meshes)
        (self.folder / "script.py").write_text(LBFGS_SCRIPT, encoding="utf-8")
        code, _, errors = self.shardlab(
            "record", "--python", program.warm_python(), "--out", "step.json.gz", "script.py")
        self.assertEqual(code, 0, errors)
        self.on_meshes(plans, *meshes)

    def test_a_part_of_the_words_indexes_the_table_as_all_do(self):
        """A sum that is pending is not cut by the 5 words, which 4 ranks cannot share."""
        torch.manual_seed(0)
        table, up = torch.nn.Embedding(12, 8), torch.nn.Linear(8, 12)
        model = torch.nn.ModuleList([table, up])
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        words = torch.randint(0, 12, (6, 6))
        with shardlab_record.record(self.path(), model, optimizer):
            y = table(words).mean(1, keepdim=True) + table(words[:, :-1])
            loss = torch.nn.functional.cross_entropy(
                up(torch.nn.functional.gelu(y.transpose(0, 1))).permute(1, 2, 0), words[:, 1:])
            loss.backward()
            optimizer.step()
        self.on_meshes(["megatron", "fsdp+tp"], "dp=2,tp=4", "dp=2,tp=2")

    def test_a_write_behind_autograd_keeps_the_gradient(self):
        torch.manual_seed(0)
        model = torch.nn.Linear(6, 4)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        x, target = torch.randn(6, 6), torch.randn(6, 4)
        with shardlab_record.record(self.path(), model, optimizer):
            variance = model(x).exp()
            torch.nn.functional.gaussian_nll_loss(x[:, :4], target, variance).backward()
            optimizer.step()
        self.on_meshes(["replicate", "fsdp"], "dp=2", "dp=3")

    def test_fake_quantization_and_packed_sequences_run_on_meshes(self):
        rnn = torch.nn.utils.rnn
        torch.manual_seed(0)
        layers = {"table": torch.nn.Embedding(9, 6), "gru": torch.nn.GRU(6, 6)}
        model = torch.nn.ModuleDict({**layers, "out": torch.nn.Linear(6, 3)})
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        words, lengths = torch.randint(0, 9, (5, 4)), torch.tensor([3, 5, 1, 4])
        scale, zero = torch.rand(3) * 0.1 + 0.05, torch.tensor([0, 2, -1], dtype=torch.int32)
        with shardlab_record.record(self.path(), model, optimizer):
            packed = rnn.pack_padded_sequence(model["table"](words), lengths, enforce_sorted=False)
            y, _ = rnn.pad_packed_sequence(model["gru"](packed)[0])
            weight = torch.fake_quantize_per_channel_affine(
                model["out"].weight, scale, zero, 0, -8, 7)
            y = torch.fake_quantize_per_tensor_affine(y, 0.05, 1, -8, 7)
            (y @ weight.t()).square().mean().backward()
            optimizer.step()
        self.assertNotIn("not judged", self.fine("replay", "step.json.gz"))
        self.on_meshes(["replicate", "fsdp"], "dp=2", "dp=3")

    def test_functions_without_a_gradient_end_in_their_results(self):
        x = torch.tensor([[3.0, 1.0], [2.0, 5.0], [4.0, 0.0]])
        with shardlab_record.record(self.path()):
            torch.argsort(x.broadcast_to(2, 3, 2), dim=-1)
            torch.where(x > 2, x, x * 2).count_nonzero(0)
        self.on_meshes([""], "dp=3")

    def test_a_program_that_fails_leaves_a_file(self):
        model = torch.nn.Linear(4, 4)
        with self.assertRaisesRegex(RuntimeError, "mat1 and mat2"):
            with shardlab_record.record(self.path(), model):
                model(torch.ones(2, 5))
        code, output, _ = self.shardlab("replay", "step.json.gz")
        self.assertEqual(code, 1)
        self.assertIn("the program failed when it was recorded: RuntimeError", output)

    def test_what_is_compiled_is_recorded_as_its_ops(self):
        twice = torch.compile(lambda x: torch.relu(x) * 2, fullgraph=True)
        model = torch.nn.Linear(4, 4)
        with shardlab_record.record(self.path(), model):
            twice(model(torch.ones(3, 4))).sum().backward()
        self.assertRegex(self.fine("replay", "step.json.gz"), r": \d\d results agree, 0 differ")
        self.assertIn('"aten.relu.default"', self.events("step.json.gz"))

    def test_functorch_is_refused_by_name_and_place(self):
        with shardlab_record.record(self.path()):
            torch.func.vmap(lambda x: x * 2)(torch.ones(3))
        code, _, errors = self.shardlab("replay", "step.json.gz")
        self.assertEqual(code, 2)
        self.assertRegex(
            errors, r"could not see a transform of torch.func at \S*recorder_test.py:\d+")

    def test_models_stacked_by_functorch_are_refused_as_such(self):
        """The file has its end, also where the program's own end cannot be read."""
        (self.folder / "train.py").write_text(STACKED_SCRIPT, encoding="utf-8")
        code, _, _ = self.shardlab("record", "--python", program.warm_python(), "train.py")
        self.assertEqual(code, 0)
        code, _, errors = self.shardlab("replay", "step.json.gz")
        self.assertEqual(code, 2)
        self.assertIn("could not see a transform of torch.func at train.py:11", errors)

    def test_gradients_of_each_sample_by_functorch_are_refused_as_such(self):
        """Parameters are captured by a transform before the first call inside of it is seen."""
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        parameters = dict(model.named_parameters())

        def loss(given, x):
            return torch.func.functional_call(model, given, (x[None],)).square().sum()

        with shardlab_record.record(self.path(), model, optimizer):
            grads = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, torch.ones(4, 3))
            for name, parameter in parameters.items():
                parameter.grad = grads[name].mean(0)
            optimizer.step()
        code, _, errors = self.shardlab("replay", "step.json.gz")
        self.assertEqual(code, 2)
        self.assertRegex(errors, r"could not see a transform of torch.func at \S*recorder_test.py")

    def test_a_script_runs_unedited(self):
        (self.folder / "train.py").write_text(SCRIPT, encoding="utf-8")
        code, output, errors = self.shardlab(
            "record", "--python", program.warm_python(), "--skip", "1", "train.py", "--rate", "3")
        self.assertEqual((code, output), (0, "arguments ['--rate', '3']\nstep 0\nstep 1\n"), errors)
        self.assertRegex(errors, r"^step.json.gz: \d+ events, \d+ bytes; next: "
                                 r"shardlab run step.json.gz --mesh tp=2 --plan megatron\n$")
        self.assertIn("0 differ", self.fine("replay", "step.json.gz"))
        run = self.fine("run", "--summary", "step.json.gz", "--mesh", "dp=4", "--plan", "fsdp")
        self.assertIn("4 gradients are PyTorch's, 0 differ", run)

    def test_a_script_is_not_recorded_while_its_model_is_made(self):
        linear = "torch.nn.Linear(8, 32)"
        normed = SCRIPT.replace(linear, f"torch.nn.utils.parametrizations.weight_norm({linear})")
        (self.folder / "train.py").write_text(normed, encoding="utf-8")
        code, _, errors = self.shardlab("record", "--python", program.warm_python(), "train.py")
        self.assertEqual(code, 0, errors)
        run = self.fine("run", "--summary", "step.json.gz", "--mesh", "dp=4", "--plan", "fsdp")
        self.assertIn("5 gradients are PyTorch's, 0 differ", run)


load_tests = program.in_parts


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
