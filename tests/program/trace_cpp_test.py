#!/usr/bin/env python3
"""Graphs that are written as programs in C++ leave the bits that their scenarios left.

    trace_cpp_test.py PROGRAM SCENARIOS LIBRARY COMPILER...

All programs are compiled at once: each in a namespace of its own, called by its number. The values
that the scenarios left are in the graph's file, written by runs of the interpreter.
"""

import json
import pathlib
import re
import subprocess
import sys
import unittest

import program

SCENARIOS = pathlib.Path(sys.argv[2]).resolve()
LIBRARY = pathlib.Path(sys.argv[3]).resolve()
COMPILER = sys.argv[4:]
SHIPPED = ("models/megatron_functions", "models/megatron_mlp", "models/parallel_styles",
           "ops/own_rule", "ops/random_by_index", "smoke/backward_hooks",
           "smoke/groups_and_meshes", "verified/reduced_in_place",
           "verified/writes_through_views")
OWN = {
    # Names that mean something in C++; a title that would end a comment's line.
    "names": r'''
title = "a \"title\"\nof\u0001two lines \\"
seed = 11
[mesh]
x = 3
[inputs]
int = { type = "f32[7@x, 2]", scale = 0.5 }
mm = { type = "f32[2, 4@x]", init = "rand" }
v1 = "f32[4]{sum:x}"
target = { type = "i64[5@x]", init = "randint(-3, 9)" }
options = { type = "f32[2, 2]", values = [[1.5, inf], [-inf, -0.0]] }
[program]
code = """
y = int @ mm
with no_grad():
    z = y.relu()
    target.add_(3)
w = z + v1
u = aten.add.Tensor(w, w, alpha=0.25)
b = cat([u, w], dim=1).topk(2, dim=1)
options.mul_(2)
n = tensor([float("nan"), float("-inf"), 1e300], dtype=f64) * 1
i = tensor([9223372036854775807, -9223372036854775807]) + 0
"""
''',
    # All of a program's placements, local values and groups.
    "moves": '''
seed = 5
planner = "graph"
[mesh]
dp = 2
tp = 2
[topology]
dp = { gbps = 25.0 }
[inputs]
x = "f32[7@dp, 6@tp]"
p = "bf16[5, 6]{sum:tp}"
[program]
code = """
a = x.redistribute(tp=R, async_op=True)
b = p.redistribute(tp=S(1), planner="bytes")
c = x.redistribute(dp=S(1), tp=R, forward_dtype=bf16, backward_dtype=f32)
l = x.to_local()
m = from_local(l * 2, dp=S(0), tp=S(1), shape=[7, 6])
n = from_local(tensor([1.0, 2.0]), mesh=mesh, tp=S(0), run_check=True)
s = all_reduce(tensor([3, 4]), "max", group="tp")
q = all_gather(tensor([[1.0], [2.0]]), 1)
r = reduce_scatter(tensor([1.0, 2.0, 3.0, 4.0, 5.0]), "sum", 0, group="dp")
t = all_to_all(tensor([[1, 2], [3, 4]]), 0, 1, group="tp")
o = broadcast(tensor([True, False]), 1, group="dp")
barrier()
sub = mesh["tp"]
d = distribute(tensor([[1.0, 2.0, 3.0]]), mesh=sub, tp=S(1))
f = mesh._flatten("all")
e = distribute(tensor([1.0, 2.0, 3.0, 4.0, 5.0]), mesh=f, all=S(0))
g = x.redistribute(dp=R, tp=R)
with implicit_replication():
    h = g + tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
"""
''',
    # Gradients and draws.
    "steps": '''
[mesh]
dp = 3
[inputs]
x = "f32[4@dp, 3]"
w = { type = "f32[3, 5@dp]", requires_grad = true }
k = { type = "f32[5]", init = "full(0.5)" }
[program]
code = """
torch.manual_seed(9)
g = torch.Generator().manual_seed(3)
noise = randn([4, 5], generator=g, dp=S(0))
mask = noise.sigmoid().bernoulli(generator=g)
late = rand([7], dp=S(0))
k.requires_grad_()
h = ((x @ w) * k + noise).tanh()
loss = h.sum() + late.sum()
backward(loss, retain_graph=True)
first = w.grad
w.grad = None
backward(loss, gradient=torch.full([], 2.0, dp=R))
dk, dw = grad((w * k).pow(2).sum(), [k, w])
v = h.detach()
values, places = v.sort(dim=1)
halves = v.split(2, dim=1)
k.requires_grad_(False)
with no_grad():
    w -= 0.1 * w.grad
"""
''',
    # Both passes of functions: saved results, results without gradient, gradients that are None.
    "functions": '''
[mesh]
dp = 2
[inputs]
x = { type = "f32[4@dp, 3]", requires_grad = true }
w = { type = "f32[3, 5]", requires_grad = true }
[program]
code = """
class Root(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, scale):
        y = a.abs().sqrt() * scale
        top = a > 0
        ctx.save_for_backward(a, y, top)
        ctx.mark_non_differentiable(top)
        ctx.scale = scale
        return y, top

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient, unused):
        a, y, top = ctx.saved_tensors
        return torch.where(top, gradient, -gradient) * (ctx.scale * ctx.scale / 2) / y, None


class Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.set_materialize_grads(False)
        return a * 2, b

    @staticmethod
    def backward(ctx, da, db):
        return da.detach(), db


h = x @ w
y, top = Root.apply(h, 3.0)
z, b = Both.apply(y, w)
z.sum().backward()
gx, gw = x.grad, w.grad
z2, b2 = Both.apply(w, x)
(z2.sum() + b2.pow(2).sum()).backward()
with no_grad():
    n, m = Root.apply(h, 2.0)
"""
''',
    # Ends in its last statement, as the scenario does.
    "fails": '''
[mesh]
x = 2
[inputs]
a = "f32[4@x, 3]"
[program]
code = """
b = a @ a
"""
[expect]
error = { kind = "Value" }
''',
}
FAILS = {"fails"}


class WrittenPrograms(program.Program):
    @classmethod
    def setUpClass(cls):
        cls.first = cls("test_bits_are_those_of_the_scenario")
        cls.first.setUp()
        cls.addClassCleanup(cls.first.doCleanups)
        cls.graphs, texts = {}, {}
        cls.first.plant(**OWN)
        paths = {name: cls.first.folder / f"{name}.toml" for name in OWN}
        paths |= {name: SCENARIOS / f"{name}.toml" for name in SHIPPED}
        for name, path in paths.items():
            texts[name] = cls.first.fine("trace", str(path), "--cpp", "--out", "own.graph")
            first = (cls.first.folder / "own.graph").read_text(encoding="utf-8").splitlines()[0]
            cls.graphs[name] = json.loads(first)
        cls.texts = texts
        cls.binary = cls.first.compiled(texts.values())
        cls.numbers = {name: number for number, name in enumerate(texts)}

    def compiled(self, texts):
        """One program of all these: its argument is the number of the one that runs."""
        heads, bodies, calls = "", "", ""
        for number, text in enumerate(texts):
            head, begin, body = text.partition("using namespace shardlab;\n")
            self.assertTrue(begin, text)
            heads += head
            # Only the program's own main() gives 0 at its end.
            spmd, _, rest = body.rpartition("  });\n}")
            body = f"{spmd}  }});\n  return 0;\n}}{rest}"
            bodies += f"namespace program{number} {{\n{begin}{body}}}\n"
            calls += f"  if (number == {number}) return program{number}::main();\n"
        source = self.folder / "programs.cpp"
        source.write_text(
            f"{heads}#include <cstdlib>\n{bodies}int main(int, char** arguments) {{\n"
            f"  const int number = std::atoi(arguments[1]);\n{calls}}}\n", encoding="utf-8")
        binary = self.folder / "programs"
        done = subprocess.run(
            [*COMPILER, "-O0", "-Wall", "-Wextra", "-Werror", source, LIBRARY, "-lboost_context",
             "-lfmt", "-ltomlplusplus", "-lz", "-pthread", "-o", binary],
            capture_output=True, encoding="utf-8", check=False)
        self.assertEqual(done.returncode, 0, done.stderr[:4000])
        return binary

    def told(self, name):
        """The program's output, line by line; with its complaint and exit code."""
        done = subprocess.run([self.binary, str(self.numbers[name])], capture_output=True,
                              encoding="utf-8", timeout=60, check=False)
        return done.returncode, done.stdout.splitlines(), done.stderr

    def test_bits_are_those_of_the_scenario(self):
        for name in self.texts.keys() - FAILS:
            with self.subTest(name):
                code, lines, errors = self.told(name)
                self.assertEqual((code, errors), (0, ""))
                graph = self.graphs[name]
                self.assertGreater(len(graph["left"]), 0)
                self.assertEqual(lines[-1].split(), ["digests", *graph["digests"]],
                                 self.texts[name])
                self.assertEqual(len(lines), len(graph["left"]) + 1)

    def test_a_failure_is_that_of_the_scenario(self):
        code, lines, errors = self.told("fails")
        self.assertEqual((code, lines), (1, []))
        self.assertTrue(errors.startswith("error: "), errors)
        recorded = re.search(r"// It fails in its last statement: \"(.*)\"", self.texts["fails"])
        self.assertIn(recorded[1], errors)

    def test_values_have_names_and_types(self):
        _, lines, _ = self.told("models/megatron_mlp")
        self.assertRegex(lines[0], r"^x  f32\[8@dp, 16\]  [0-9a-f]{16}$")
        self.assertRegex(lines[1], r"^up1  f32\[16, 64@tp\]  [0-9a-f]{16}$")

    def test_ops_with_functions_are_called_by_these(self):
        text = self.texts["models/megatron_mlp"]
        self.assertIn("= gelu(v", text)
        self.assertIn("= matmul(v", text)
        self.assertIn("redistribute(", text)
        self.assertNotIn("ops", text.partition("int main")[2])
        # An argument that the function does not take.
        self.assertIn('ops.one("aten::add.Tensor", {v', self.texts["names"])
        self.assertIn(", 0.25})", self.texts["names"])

    def test_many_values_have_a_larger_stack(self):
        few, many = (self.fine("trace", "--cpp", text=f"""
[mesh]
x = 2
[inputs]
a = "f32[3@x]"
[program]
code = '''
for i in range({count}):
    a = a + 1
'''
""") for count in (10, 400))
        self.assertNotIn("stack_bytes", few)
        grown = re.search(r"options.schedule.stack_bytes \+= (\d+);", many)
        self.assertGreater(int(grown[1]), 400 * 1024)

    def test_a_changed_statement_leaves_other_bits(self):
        text = self.texts["models/megatron_mlp"]
        wrong = text.replace("gelu(", "relu(", 1)
        self.assertNotEqual(wrong, text)
        done = subprocess.run([self.compiled([wrong]), "0"], capture_output=True,
                              encoding="utf-8", check=True)
        digests = done.stdout.splitlines()[-1].split()[1:]
        self.assertNotEqual(digests, self.graphs["models/megatron_mlp"]["digests"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
