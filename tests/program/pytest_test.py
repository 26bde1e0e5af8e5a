#!/usr/bin/env python3
"""The plugin for pytest, where PyTorch, NumPy and pytest are installed. Skipped (77) where not.

    pytest_test.py PROGRAM ROOT
"""

import os
import pathlib
import subprocess
import sys
import unittest

import program

program.need("pytest", "torch", "numpy")

ROOT = pathlib.Path(sys.argv[2]).resolve()

TESTS = """import ctypes, pytest, torch
from torch import nn

class Block(nn.Module):
    def __init__(self, change=None):
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)
        self.change = change

    def forward(self, x):
        h = torch.relu(self.up(x))
        if self.change is not None:
            self.change(h)
        return self.down(h)

def loss_of(model):
    return model(torch.randn(8, 16)).square().mean()

def test_right(shardlab_check):
    model = Block()
    loss = shardlab_check(model, lambda: loss_of(model).backward() or 3)
    assert loss == 3 and model.up.weight.grad is not None

def test_wrong_gradient(shardlab_check):
    model = Block(lambda h: h.register_hook(lambda gradient: gradient * 2))
    shardlab_check(model, lambda: loss_of(model).backward())

def test_wrong_write(shardlab_check):
    def write(h):
        h.detach().numpy()[0] = 1
    model = Block(write)
    shardlab_check(model, lambda: loss_of(model).backward())

def test_two_steps(shardlab_check):
    model = Block()
    optimizer = torch.optim.AdamW(model.parameters())
    def step():
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
    shardlab_check(model, step, optimizer, plan="fsdp")
    shardlab_check(model, step, optimizer, place=["up.weight=[32@tp, 16]", "down:out=[_, _]"])

@pytest.mark.shardlab(plan="fsdp")
@pytest.mark.parametrize("rows", [7, 8])
def test_marked(rows):
    model, x = Block(), torch.randn(rows, 16)
    y = model(x)
    y.square().mean().backward()
    torch.testing.assert_close(y, model(x))

@pytest.mark.shardlab
def test_marked_forward():
    y = Block()(torch.randn(8, 16))
    assert y.shape == (8, 16) and y.mean().item() < 5

@pytest.mark.shardlab
def test_marked_wrong():
    def write(h):  # nobody sees it
        ctypes.memset(h.data_ptr(), 0, h.numel() * h.element_size())
    loss_of(Block(write)).backward()

@pytest.mark.shardlab
def test_fails_by_itself():
    assert loss_of(Block()).item() < 0

@pytest.mark.shardlab
def test_no_module():
    assert torch.ones(2).sum() == 2
"""


RANKS = """import pytest, torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor.parallel import (
    ColwiseParallel, RowwiseParallel, parallelize_module)

def model_of():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

@pytest.mark.parametrize("second", [RowwiseParallel, ColwiseParallel])
def test_of_dims(shardlab_ranks, second):
    def step(mesh):
        model = model_of()
        if mesh is not None:
            parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
            if second is ColwiseParallel:  # the sum of its terms is forgotten
                model[2]._forward_hooks.clear()
                model[2].register_forward_hook(lambda own, args, y: y.to_local())
        model(torch.randn(8, 16)).square().mean().backward()
    shardlab_ranks(step, tp=2)

@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_of_processes(shardlab_ranks, factor):
    def step():
        rank, world = 0, 1
        if dist.is_initialized():
            rank, world = dist.get_rank(), dist.get_world_size()
        model = model_of()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        model(torch.randn(8, 16).chunk(world)[rank]).square().mean().backward()
        if world > 1:
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad *= factor / world
        optimizer.step()
    shardlab_ranks(step, processes=True)
"""


class Plugin(program.Program):
    def pytest(self, *options, tests=TESTS):
        (self.folder / "test_block.py").write_text(tests, encoding="utf-8")
        environment = {
            **os.environ,
            "COLUMNS": "300",
            "PYTHONPATH": os.pathsep.join(
                [str(ROOT / "sim/record_torch"), os.environ.get("PYTHONPATH", "")]),
            "SHARDLAB_PROGRAM": program.PROGRAM,
        }
        return subprocess.run(
            [program.warm_python(), "-m", "pytest", "-p", "shardlab_pytest", "-p",
             "no:cacheprovider", "--basetemp", str(self.folder / "made"), "-rA", "test_block.py",
             *options],
            cwd=self.folder, env=environment, capture_output=True, encoding="utf-8", check=False,
            timeout=300).stdout

    def test_values_on_ranks_are_those_on_one_process(self):
        told = self.pytest(tests=RANKS)
        self.assertIn("2 failed, 2 passed", told)
        self.assertIn("PASSED test_block.py::test_of_dims[RowwiseParallel]", told)
        self.assertIn("a term on each rank: their sum over ranks 0, 1 is A's value", told)
        self.assertIn("PASSED test_block.py::test_of_processes[1.0]", told)
        self.assertRegex(told, r"test_of_processes\[2.0\](.|\n)*2 times A's value")

    def test_without_a_mesh_tests_run_as_they_are(self):
        told = self.pytest()
        self.assertRegex(told, r"1 failed, 9 passed")
        self.assertIn("FAILED test_block.py::test_fails_by_itself", told)

    def test_on_a_mesh_the_first_wrong_value_is_named(self):
        told = self.pytest("--mesh", "dp=2,tp=4", "--plan", "megatron")
        line = TESTS.splitlines().index("        return self.down(h)") + 1
        self.assertRegex(told, r"FAILED test_block.py::test_marked_wrong - Failed: FAIL event \d+  "
                               rf"down  test_block.py:{line}  ")
        self.assertRegex(told, r"FAILED test_block.py::test_wrong_gradient - Failed: error: .*: "
                               r"a hook that changes a gradient, by aten.mul.Tensor at ")
        self.assertRegex(told, r"FAILED test_block.py::test_wrong_write - Failed: error: ")
        self.assertRegex(told, r"could not see a write through numpy at test_block.py:\d+")
        self.assertRegex(told, r"FAILED test_block.py::test_fails_by_itself - .*assert ")
        self.assertRegex(told, r"FAILED test_block.py::test_no_module - .*calls no module")
        self.assertRegex(told, r"again: \S*shardlab run --summary \S+/test_marked_wrong.json.gz "
                               r"--mesh dp=2,tp=4 --plan megatron")
        self.assertIn("5 failed, 5 passed", told)

    def test_steps_on_the_mesh_are_counted(self):
        self.assertIn("shardlab: 2 steps ran on mesh tp=2\n",
                      self.pytest("--mesh", "tp=2", "-k", "two_steps"))
        self.assertIn("shardlab: 0 steps ran on mesh tp=2; a test that is to run there has",
                      self.pytest("--mesh", "tp=2", "-k", "unmarked"))

    def test_a_plan_that_does_not_exist_is_refused(self):
        told = self.pytest("--mesh", "tp=2", "--plan", "megatorn", "-k", "test_right")
        self.assertRegex(told, r"error: .*megatorn[^\n]*\n +fix  ")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
