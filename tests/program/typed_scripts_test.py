#!/usr/bin/env python3
"""Scripts that use spmd_types, under its strict checker, recorded by a process for each rank.
Skipped (77) where PyTorch, NumPy or the package is not installed.

    typed_scripts_test.py PROGRAM ROOT
"""

import importlib.util
import os
import pathlib
import sys
import unittest

MISSING = [name for name in ("torch", "numpy", "spmd_types")
           if importlib.util.find_spec(name) is None]
if MISSING:
    print(f"skipped: not installed for this Python: pip install {' '.join(MISSING)}")
    sys.exit(77)

from program import Program

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


class TypedScripts(Program):
    def recorded(self, script, ranks):
        os.environ["OMP_NUM_THREADS"] = "1"
        code, output, errors = self.shardlab("record", "--python", sys.executable, "--ranks",
                                             str(ranks), "--processes", "--out", "step.json.gz",
                                             str(script))
        self.assertEqual(code, 0, output + errors)
        return output + errors

    def test_the_strict_checker_accepts_them_and_their_claims_hold(self):
        for name, ranks in (("llama", 2), ("moe", 2), ("pipeline", 4)):
            self.recorded(SCRIPTS / f"{name}.py", ranks)
            output = self.fine("replay", "step.json.gz")
            self.assertRegex(output, r", 0 differ.* [1-9]\d* claims and moves of types", name)

    def test_a_call_that_is_not_known_is_refused_by_name(self):
        (self.folder / "script.py").write_text(UNKNOWN, encoding="utf-8")
        self.assertIn("spmd_types.set_dist", self.recorded("script.py", 1))
        code, output, errors = self.shardlab("replay", "step.json.gz")
        self.assertEqual(code, 2)
        self.assertIn("spmd_types.set_dist at script.py:6", output + errors)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
