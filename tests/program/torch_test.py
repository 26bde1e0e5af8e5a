#!/usr/bin/env python3
"""Programs over tensors have PyTorch's output, plain and placed on four ranks.

    torch_test.py PROGRAM

The programs are torch/*.py, PyTorch's output is next to them (torch/record.py wrote it). They call
place(tensor), which is the tensor itself here, replicas, or pieces, uneven and empty ones among
them, and show(name, tensor), which prints all its elements. All their numbers are exact, so that
texts are compared.
"""

import json
import pathlib
import sys
import unittest

from program import Program

FOLDER = pathlib.Path(__file__).parent / "torch"
PLACES = {
    "plain": "return tensor",
    "replicas": "return distribute(tensor, mesh=mesh)",
    "rows": "return distribute(tensor, mesh=mesh, x=S(0))",
    "columns": "return distribute(tensor, mesh=mesh, x=S(-1))",
}
CODE = """def place(tensor):
    {place}
def show(name, tensor):
    print(name, list(tensor.shape), tensor.{whole}tolist())
with implicit_replication():
"""
SCENARIO = """[mesh]
x = 4
[program]
file = "program.py"
[expect]
verify = "none"
"""


class OverTensors(Program):
    def check(self, name, places):
        program = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        wanted = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        indented = "".join(f"    {line}\n" for line in program.splitlines())
        for place in places:
            with self.subTest(place):
                whole = "" if place == "plain" else "full_tensor()."
                head = CODE.format(place=PLACES[place], whole=whole)
                (self.folder / "program.py").write_text(head + indented, encoding="utf-8")
                code, output, errors = self.shardlab("run", "--json", text=SCENARIO)
                run = json.loads(output)
                self.assertEqual((code, errors), (0, ""), run.get("error"))
                printed = run["printed"]
                self.assertEqual([entry["by"] for entry in printed], ["all"] * len(printed))
                self.assertEqual([entry["text"] for entry in printed], wanted)

    def test_indices(self):
        self.check("indexing", PLACES)

    def test_reductions(self):
        self.check("reductions", PLACES)

    def test_arithmetic(self):
        self.check("arithmetic", PLACES)

    def test_gradients(self):
        self.check("gradients", PLACES)

    def test_shapes_of_whole_tensors(self):
        """A view of an uneven piece is refused, as by the reference."""
        self.check("shapes", ["plain", "replicas"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
