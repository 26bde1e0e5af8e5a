#!/usr/bin/env python3
"""Scripts that use spmd_types, under its strict checker, recorded by a process for each rank.
Skipped (77) where PyTorch, NumPy or the package is not installed.

    typed_scripts_test.py PROGRAM ROOT [PART/PARTS]
"""

import importlib.util
import json
import os
import pathlib
import sys
import unittest

from program import Program, in_parts, need, warm_python

need("torch", "numpy", "spmd_types")

SCRIPTS = pathlib.Path(sys.argv[2]).resolve() / "tests/golden/recordings/typed"
UNKNOWN = """
import spmd_types
import torch
w = torch.ones(2, requires_grad=True)
(w * 2).sum().backward()
spmd_types.set_dist(None)
with torch.no_grad():
    w -= w.grad
(w * 2).sum().backward()
"""

# Without the checker, which would refuse some of it: values and gradients alone tell.
USED = """
import spmd_types as spmd
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
draw = torch.Generator().manual_seed({seed})
x = torch.randn({rows}, 4, generator=draw).requires_grad_()
with spmd.set_current_mesh(mesh):
    up, down = (
        spmd.convert(torch.randn(6, 6, generator=draw)[:4] if dim else
                     torch.randn(6, 4, generator=draw), "tp", src=spmd.R, dst=spmd.S(dim))
        .clone().requires_grad_() for dim in (1, 0))
    h = torch.tanh(x)
    spmd.assert_type(h, {{"tp": spmd.{kind}}})  # the claim
    unused = h * 3
    r = {entry}
    y = spmd.all_reduce(torch.relu(r @ up) @ down, "tp", src=spmd.P, dst=spmd.{dst})  # the sum
    y.pow(2).sum().backward()
    with torch.no_grad():
        up -= 0.1 * up.grad
dist.destroy_process_group()
"""
ENTRY = 'spmd.convert(h, "tp", src=spmd.I, dst=spmd.R)'


class TypedScripts(Program):
    def recorded(self, script, ranks, *arguments, out="step.json.gz", python=None):
        os.environ["OMP_NUM_THREADS"] = "1"
        code, output, errors = self.shardlab("record", "--python", python or warm_python(),
                                             "--ranks", str(ranks), "--processes", "--out", out,
                                             str(script), *arguments)
        self.assertEqual(code, 0, output + errors)
        return output + errors

    def test_the_strict_checker_accepts_them_and_their_claims_hold(self):
        for name, ranks in (("llama", 2), ("moe", 2), ("pipeline", 4)):
            self.recorded(SCRIPTS / f"{name}.py", ranks)
            output = self.fine("replay", "step.json.gz")
            self.assertRegex(output, r", 0 differ.* [1-9]\d* claims and moves of types", name)

    def test_every_call_of_the_package_is_taken_or_refused_by_name(self):
        self.recorded(SCRIPTS / "calls.py", 2)
        for command in ("replay", "run"):
            self.assertRegex(self.fine(command, "step.json.gz"),
                             r", 0 differ.* [1-9]\d* claims and moves of types")
        types = self.fine("types", "step.json.gz")
        for call, kind in (("spmd_typecheck", r"\?"), ("unshard", "I"), ("no_typecheck", "R or I")):
            self.assertRegex(types, rf"calls.py {call} +f32\[.*\] +tp {kind}")
        import spmd_types
        spec = importlib.util.spec_from_file_location(
            "recorder", SCRIPTS.parents[3] / "sim/record_torch/shardlab_record.py")
        recorder = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(recorder)
        typed = recorder._Typed
        functions = {name for name, own in vars(spmd_types).items()
                     if isinstance(own, type(self.recorded.__func__)) and name[0] != "_"}
        known = {*typed.MOVES, *typed.CLAIMS, *typed.BOUNDARIES, *typed.SILENT}
        self.assertEqual(functions - known, {"set_current_mesh", "set_dist", "spmd_redistribute"})
        self.assertLessEqual(known, functions)

    def test_gradients_of_activations_tell_r_and_i_apart(self):
        cases = (("I", ENTRY, "I", None, ""),
                 ("I", "h", "I", "# the claim", "ranks use it for other work, which is R"),
                 ("R", ENTRY, "I", "# the claim", "ranks use it for the same work, which is I"),
                 ("R", "h", "I", None, ""),
                 ("I", ENTRY, "R", "# the sum", "ranks use it for the same work, which is I"))
        for seed, (kind, entry, dst, line, said) in enumerate(cases):
            script = USED.format(seed=seed, rows=3 + seed, kind=kind, entry=entry, dst=dst)
            (self.folder / "used.py").write_text(script, encoding="utf-8")
            self.recorded("used.py", 2)
            code, output, errors = self.shardlab("replay", "step.json.gz")
            self.assertEqual(code, 1 if line else 0, output + errors)
            if line:
                at = next(i for i, one in enumerate(script.splitlines(), 1) if line in one)
                self.assertIn(f"used.py:{at}", output)
                self.assertIn(said, output)

    def test_parameters_of_no_module_have_an_end(self):
        """Those of an optimizer alone, and those written behind its step, in a function that has
        returned when the recording ends."""
        script = SCRIPTS.parent / "mistakes/step/step.py"
        self.recorded(script, 1, out="one.json.gz")
        self.recorded(script, 2, "left_out")
        code, output, errors = self.shardlab("blame", "--json", "one.json.gz", "step.json.gz")
        self.assertEqual(code, 1, output + errors)
        self.assertEqual([one["name"] for one in json.loads(output)["wrong"]],
                         ["leaf[2 of 3].grad", "", "leaf[2 of 3]"])

    def test_the_package_in_one_process_is_refused_before_it_breaks(self):
        script = str(SCRIPTS / "llama.py")
        code, output, errors = self.shardlab("record", "--python", sys.executable, "--ranks", "4",
                                             "--out", "step.json.gz", script)
        self.assertNotEqual(code, 0)
        self.assertIn("shardlab record --ranks 4 --processes " + script, output + errors)
        self.assertNotIn("Traceback", output + errors)

    def test_a_call_that_is_not_known_is_refused_by_name(self):
        (self.folder / "script.py").write_text(UNKNOWN, encoding="utf-8")
        self.assertIn("spmd_types.set_dist", self.recorded("script.py", 1, python=sys.executable))
        code, output, errors = self.shardlab("replay", "step.json.gz")
        self.assertEqual(code, 2)
        self.assertIn("spmd_types.set_dist at script.py:6", output + errors)


load_tests = in_parts


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
