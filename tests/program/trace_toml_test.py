#!/usr/bin/env python3
"""Graphs that are written as scenarios have the results of the scenarios they were captured from.

    trace_toml_test.py PROGRAM SCENARIOS
"""

import json
import pathlib
import re
import sys
import unittest

import program

SCENARIOS = pathlib.Path(sys.argv[2]).resolve()
# Graphs that cannot be a straight program of statements, with their messages.
REFUSED = ("has no statement", "different graphs", "points, each a program of its own",
           "had been drawn from before")


def places_apart(lines):
    """The nodes of a graph file, without their places in a program's text. Slices are made where
    a value is first on them, and no rank meets another: meshes go by what they are."""
    nodes = [json.loads(re.sub(r" \(line \d+\)", "", line)) for line in lines]
    meshes = nodes[0].get("meshes", []) if nodes else []

    def described(number):
        mesh = dict(meshes[number])
        if "base" in mesh:
            mesh["base"] = described(mesh["base"])
        return mesh

    def named(value):
        if isinstance(value, list):
            return [named(one) for one in value]
        if not isinstance(value, dict):
            return value
        return {key: described(one) if key == "mesh" and isinstance(one, int) else named(one)
                for key, one in value.items() if key != "at"}

    def merged(node):
        """Dims that may be merged from now on: of a slice those of its mesh."""
        mesh = described(node["mesh"])
        names = [mesh["names"][dim] for dim in node["mesh_dims"]]
        return {"k": node["k"], "mesh": mesh.get("base", mesh), "mesh_dims": names}

    def is_slice(node):
        mesh = meshes[node["mesh"]] if node["k"] == "mesh" else {}
        return "base" in mesh and not mesh.get("flattened") and "mesh_dims" not in node

    return [merged(node) if "mesh_dims" in node else named(node) for node in nodes
            if node["k"] not in ("program", "guard") and not is_slice(node)]


class WrittenScenarios(program.Program):
    def graph(self, scenario, name):
        """Lines of the graph's file."""
        self.shardlab("trace", str(scenario), "--out", name)
        path = self.folder / name
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def test_each_shipped_scenario_is_written_as_it_was_or_refused(self):
        written = 0
        for path in sorted(SCENARIOS.glob("*/*.toml")):
            if path.parent.name in ("llama3", "zoo"):
                continue
            with self.subTest(path=path.name):
                _, text, errors = self.shardlab("trace", str(path), "--toml")
                if any(reason in errors for reason in REFUSED):
                    continue
                self.plant(written=text)
                own = self.graph(path, "own.graph")
                again = self.graph(self.folder / "written.toml", "again.graph")
                self.assertEqual(places_apart(again), places_apart(own), text)
                written += 1
        self.assertGreater(written, 15)

    def test_values_and_collectives_are_the_same(self):
        text = """
title = "two steps"
seed = 4
[mesh]
dp = 2
tp = 2
[inputs]
x = "f32[7@dp, 6]"
w = { type = "f32[6, 5@tp]", requires_grad = true, scale = 0.5 }
none = "f32[0@dp, 3]"
[program]
code = '''
a = x @ w
b = a.softmax(-1)
y = b.redistribute(tp=R)
q = y.square()
t = q.sum()
t.backward()
part = y.to_local()
m = part * 2.5
f = from_local(m, dp=S(0), tp=R, shape=[7, 5])
z = f.redistribute("[7@tp, 5]")
d = w.grad
r = d.redistribute(dp=R, tp=R)
g = r.to_local()
e = none.sum(0)
'''
"""
        self.plant(own=text)
        written = self.fine("trace", "own.toml", "--toml")
        self.plant(written=written)
        self.fine("run", "written.toml")
        own, again = self.graph("own.toml", "a.graph"), self.graph("written.toml", "b.graph")
        self.assertEqual(places_apart(again), places_apart(own), written)
        # Both hold every value to the end, so that all of them are compared bit by bit.
        digests = [json.loads(lines[0])["digests"] for lines in (own, again)]
        self.assertEqual(len(digests[0]), 4)
        self.assertEqual(digests[1], digests[0], written)
        wrong = written.replace("aten._softmax", "aten._log_softmax")
        wrong = wrong.replace("aten.softmax", "aten.log_softmax")
        self.assertNotEqual(wrong, written)
        self.plant(written=wrong)
        self.assertNotEqual(places_apart(self.graph("written.toml", "c.graph")), places_apart(own))

    def test_parts_of_views_are_parts_again_on_every_rank(self):
        """A slice that was unflattened, a view of a permuted mesh, a mesh of some ranks."""
        text = """
[mesh]
pp = 2
w = 4
[inputs]
x = "f32[7, 6]"
[program]
code = '''
inner = mesh["w"]._unflatten("w", (2, 2), ("dp", "tp"))
a = distribute_tensor(x, inner, [S(0), S(1)]) * 2
b = distribute_tensor(x, inner["tp"], [S(0)]) + 1
ranks = [[3, 1], [0, 2], [7, 5], [4, 6]]
turned = DeviceMesh("cpu", ranks, mesh_dim_names=("a", "b"), preserve_rank_order=True)
c = distribute_tensor(x, turned["a"], [S(1)]).exp()
some = init_device_mesh("cpu", (4,), mesh_dim_names=("ep",))
d = distribute_tensor(x, some, [S(0)]).sum()
e = c.redistribute(turned, [R, S(0)]) * 3
'''
"""
        self.plant(own=text)
        written = self.fine("trace", "own.toml", "--toml")
        self.plant(written=written)
        self.assertIn("ok     written.toml  8 ranks, 10 values verified",
                      self.fine("run", "written.toml"))
        again = self.fine("trace", "written.toml", "--toml")
        self.assertEqual(again, written)

    def test_functions_are_classes_again(self):
        text = """
[mesh]
dp = 2
[inputs]
x = { type = "f32[4@dp, 3]", requires_grad = true }
[program]
code = '''
class Root(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, scale):
        y, top = a.abs().sqrt() * scale, a > 0
        ctx.save_for_backward(y, top)
        ctx.mark_non_differentiable(top)
        return y, top
    @staticmethod
    @once_differentiable
    def backward(ctx, gradient, unused):
        y, top = ctx.saved_tensors
        return torch.where(top, gradient, -gradient) / y, None
y, top = Root.apply(x, 3.0)
z, _ = Root.apply(y, 2.0)
z.sum().backward()
g = x.grad
'''
"""
        self.plant(own=text)
        written = self.fine("trace", "own.toml", "--toml")
        self.assertEqual(written.count("class Root(torch.autograd.Function):"), 2)
        self.plant(written=written)
        own, again = self.graph("own.toml", "a.graph"), self.graph("written.toml", "b.graph")
        self.assertEqual(places_apart(again), places_apart(own), written)
        self.assertIn("bitwise", self.fine("trace", "own.toml"))

    def test_texts_and_names_are_read_as_they_were(self):
        text = r"""
title = "two\nlines,\ta \"quote\", \u0001, \u007f and \\"
[mesh]
x = 2
[inputs]
g0 = "f32[4@x]"
v3 = "f32[4@x]"
[program]
code = '''
g = torch.Generator()
y = g0 + v3 + randn([4], generator=g, x=S(0))
z = y.repeat(1)
'''
"""
        self.plant(own=text)
        written = self.fine("trace", "own.toml", "--toml")
        self.assertEqual(written.splitlines()[0], text.splitlines()[1].replace(r"\n", r"\u000a")
                         .replace(r"\t", r"\u0009"))
        self.plant(written=written)
        own, again = self.graph("own.toml", "a.graph"), self.graph("written.toml", "b.graph")
        self.assertEqual(json.loads(again[0])["program"],
                         json.loads(own[0])["program"])
        self.assertEqual(places_apart(again), places_apart(own), written)

    def test_ranks_whose_pieces_have_other_sizes_have_one_text(self):
        written = self.fine("trace", str(SCENARIOS / "smoke/modules_on_slices.toml"), "--toml")
        self.assertNotIn("if rank in", written)
        self.plant(written=written)
        self.fine("run", "written.toml")

    def test_ranks_that_part_have_blocks(self):
        self.plant(own="""
[mesh]
x = 3
[inputs]
a = "f32[3@x]"
[program]
code = '''
t = tensor([1.0 + rank, 2.0]) * 3
if rank == 1:
    b = a * 2
    t = t + 1
'''
""")
        written = self.fine("trace", "own.toml", "--toml")
        self.assertIn("tensor({0: [1.0, 2.0], 1: [2.0, 2.0], 2: [3.0, 2.0]}[rank]", written)
        self.assertIn("if rank in [1]:\n    ", written)
        self.plant(written=written)
        own, again = self.graph("own.toml", "a.graph"), self.graph("written.toml", "b.graph")
        self.assertEqual(places_apart(again), places_apart(own), written)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
