#!/usr/bin/env python3
"""`shardlab run` and `shardlab explain` as their users see them.

    run_command_test.py PROGRAM
"""

import contextlib
import fcntl
import json
import os
import platform
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

from program import PROGRAM, Program

# 7 rows over 4 ranks: pieces of 2, 2, 2 and 1 row.
MATMULS = """
[mesh]
dp = 4
[inputs]
x = "f32[8@dp, 4]"
w = "f32[4, 4]"
[program]
code = '''
for i in range(3):
    y = mm(x, w)
'''
"""

ONE_RANK_ADDS = """
[mesh]
tp = 4
[inputs]
x = "f32[8@tp]"
[program]
code = '''
piece = x.to_local() * 2
if rank == 3:
    piece = piece + 1
'''
"""

RANK_PRINTS = """
[mesh]
dp = 4
[inputs]
x = { type = "i64[7@dp]", values = [1, 2, 3, 4, 5, 6, 7] }
[program]
code = '''
print("before")
l = x.to_local()
print(l.shape[0], l.sum().item())
if rank == 3:
    print("only here")
for i in range(2):
    if rank != 1:
        print("pass", i)
print("after")
'''
[expect]
verify = "none"
"""

# Shapes only: 7 rows over 4 ranks once more, on each of 3 columns of ranks.
CLASS_PRINTS = """
[mesh]
dp = 4
tp = 3
[inputs]
x = "f32[7@dp, 5]"
[program]
code = '''
print("rows", x.to_local().shape[0])
if mesh.coordinate("tp") == 1:
    print("second column")
print("done")
'''
"""

# 7 rows over 4 are pieces of 2, 2, 2 and 1; rank 10 is dp 3, tp 1.
CLASSES_PRINTED = [
    "  dp 0-2, tp 0,2; dp 0-2, tp 1: rows 2",
    "  dp 3, tp 0,2; rank 10: rows 1",
    "  dp 0-2, tp 1; rank 10: second column",
    "  done",
]

# Each layer keeps its result for backward: 4,096 rows of 1,024 floats on each of 2 ranks, 16 MiB.
KEEPS = """
[mesh]
dp = 2
[params]
layers = 2
[inputs]
x = "f32[8192@dp, 1024]"
[program]
code = '''
ws = [randn([1024, 1024], dp=R, requires_grad=True) for l in range(layers)]
y = x
for l in range(layers):
    y = torch.tanh(y @ ws[l])
loss = y.pow(2).sum()
backward(loss)
'''
"""

FAILS_AT_ONCE = """
[mesh]
x = 2
[program]
code = '''
print("here")
assert False, "at once"
'''
"""

SHARDED = '''
[mesh]
{0} = 2
{1} = 2
[inputs]
w = "f32[6, 4]"
[program]
code = """
u = fully_shard(w, mesh=mesh["{0}", "{1}"])
"""
'''
VIEWS = '''
[mesh]
dp = 2
tp = 3
[inputs]
x = "f32[6@dp, 3]"
[program]
code = """
a = x * 2
b = a.redistribute(mesh._flatten("w"), [S(0)])
c = a.redistribute(mesh["tp"], [S(1)])
"""
'''
MOVED = '''
[mesh]
dp = 2
tp = 2
[inputs]
x = "f32[7@dp, 3]"
[program]
code = """
other = DeviceMesh("cpu", [[0, 2], [1, 3]], mesh_dim_names=("a", "b"), preserve_rank_order=True)
y = (x * 2).redistribute(other, [S(1), S(0)]) + 1
z = y.redistribute(mesh, [S(0), R])
"""
'''
REORDERED = '''
[mesh]
w = 4
[program]
code = """
m = DeviceMesh("cpu", [1, 0, 3, 2], mesh_dim_names=("w",){})
"""
'''

IMPLICIT = """
[mesh]
dp = 2
tp = 2
[inputs]
x = "f32[7@dp, 6]"
w = "f32[6, 8@tp]"
[program]
code = '''
for i in range(3):
    h = x @ w
    s = h.softmax(-1)
n = F.layer_norm(h, [8])
'''
[expect]
implicit = "warn"
"""

# Rank 0 holds 4 of 7 rows: 4 * 8 * 4 = 128 bytes, which an all_reduce over two ranks sends once;
# half of them an all_gather. The first x needs no gradient; the gradient of the result of
# all_reduce is that of its terms, so that line 12 does nothing in between.
LAYERS = """
[mesh]
dp = 2
tp = 2
[inputs]
x = "f32[7@dp, 8]"
w = { type = "f32[8@tp, 8]", requires_grad = true }
[program]
code = '''
def layer(x, w):
    h = x.redistribute(tp=S(1)) @ w
    return h.redistribute(tp=R)

for i in range(3):
    x = layer(x, w)
loss = x.sum().redistribute(dp=R)
backward(loss)
'''
"""

# A run that no test waits for.
LONG = """
[mesh]
x = 2
[program]
code = '''
a = randn([4000, 4000], x=S(0))
for i in range(100):
    b = a @ a.redistribute(x=R)
'''
"""

ENDLESS = """
[mesh]
x = 2
[program]
code = '''
a = zeros([3], x=S(0))
while a.sum().full_tensor().item() < 1:
    b = a + 1
'''
"""

PIECES = """
[mesh]
dp = 2
[inputs]
x = "f32[7@dp, 6]"
[program]
code = '''

l = x.to_local()
m = l @ l.t()
'''
"""

VALUES = """
[mesh]
x = 2
[inputs]
a = { type = "f32[3@x]", requires_grad = true }
[program]
code = '''
def block(v):
    h = v * 2
    return h.exp()

b = block(a)
loss = b.sum().redistribute(x=R)
backward(loss)
'''
"""

LOCAL = """
[mesh]
x = 2
[program]
code = '''
w = ones([3])
v = w + 1
d = from_local(v, mesh=mesh)
'''
"""

INFINITE = """
[mesh]
x = 2
[inputs]
a = { type = "f32[3@x]", values = [0.0, -1.0, 1.0] }
[program]
code = '''
up = 1.0 / a
down = -1.0 / (a * 0.0)
root = a.sqrt()
'''
"""

HOOKS = """
[mesh]
dp = 2
tp = 3
[inputs]
x = "f32[7@dp, 4]"
w = { type = "f32[4, 5@tp]", requires_grad = true }
[program]
code = '''
def halved(gradient):
    return gradient * 0.5

def layer(v, weight):
    return gelu(v @ weight)

def clipped(f, grad_input, grad_output):
    return (grad_input[0], grad_input[1].redistribute(dp=R).clamp(-1.0, 1.0))

layer.register_full_backward_hook(clipped)
h = w.register_hook(halved)
backward((layer(x, w) ** 2).sum())
h.remove()
'''
[expect]
"w.grad" = "f32[4, 5@tp]"
grads = ["w"]
"""

GROUPS = """
[mesh]
dp = 2
tp = 3
[inputs]
x = "f32[7@tp, 5@dp]"
[program]
code = '''
g = mesh.get_group("tp")
assert get_process_group_ranks(g)[g.rank()] == mesh.get_rank() == dist.get_rank()
flat = mesh._flatten("all")
assert flat.get_local_rank() == mesh.size("tp") * mesh.get_local_rank("dp") + g.rank()
assert mesh.get_coordinate() == (mesh["dp"].get_local_rank(), g.rank())
y = x.redistribute(tp=R)
print(len(get_process_group_ranks(g)), g.size(), flat.get_group().size())
'''
"""


class RunCommand(Program):
    def test_prints_are_shown_once_where_all_ranks_agree_else_with_their_ranks(self):
        output = self.fine("run", text=RANK_PRINTS)
        self.assertEqual(self.section(output, "printed"), [
            "  before",
            "  rank 0: 2 3",
            "  rank 1: 2 7",
            "  rank 2: 2 11",
            "  rank 3: 1 7",
            "  rank 3: only here",
            "  ranks 0,2,3: pass 0",
            "  ranks 0,2,3: pass 1",
            "  after",
        ])

    def test_one_rank_can_be_chosen(self):
        output = self.fine("run", "--rank", "3", text=RANK_PRINTS)
        self.assertEqual(self.section(output, "printed by rank 3"),
                         ["  before", "  1 7", "  only here", "  pass 0", "  pass 1", "  after"])
        code, output, errors = self.shardlab("run", "--rank", "4", text=RANK_PRINTS)
        self.assertEqual((code, output), (2, ""))
        self.assertIn("error: --rank 4: there is no such rank\n", errors)
        self.assertIn("ranks are numbered from 0 to 3", errors)

    def test_log_and_json_are_those_of_the_rank_that_is_asked_for(self):
        self.plant(parts=ONE_RANK_ADDS)
        for rank, adds in ((0, 0), (3, 1)):
            log = self.fine("run", "--log", "--rank", str(rank), "parts.toml")
            self.assertTrue(log.startswith(f"rank {rank} of 4\n"), log)
            self.assertEqual(log.count("local add.Scalar"), adds, log)
            run = json.loads(self.fine("run", "--json", "--rank", str(rank), "parts.toml"))
            local = [event["local_op"] for event in run["events"] if "local_op" in event]
            self.assertEqual((run["rank"], local.count("aten::add.Scalar")), (rank, adds))
        self.assertNotIn("rank", json.loads(self.fine("run", "--json", "parts.toml")))
        # For every rank: each rank's log, and the counts of all ranks once.
        every = self.fine("run", "--log", "--full", "parts.toml")
        alone = [self.fine("run", "--log", "--rank", str(rank), "parts.toml") for rank in range(4)]
        totals = alone[0].splitlines(keepends=True)[-1]
        self.assertTrue(totals.startswith("collectives entered, all ranks: "), totals)
        self.assertEqual(every, "".join(log.removesuffix(totals) for log in alone) + totals)
        code, _, errors = self.shardlab("run", "--log", "--full", "--backend", "fake", "parts.toml")
        self.assertEqual(code, 2)
        self.assertIn("--full: with backend fake the log and the JSON are those of one", errors)

    def test_caches_say_what_was_asked_and_made(self):
        run = json.loads(self.fine("run", "--json", text=MATMULS))
        # Three equal products on each of four ranks, one redistribution between them.
        self.assertEqual(run["caches"]["decisions"], {"asked": 12, "made": 1})
        self.assertIn("caches: 1 decisions made and asked for 12 times",
                      self.fine("run", "--full", text=MATMULS))

    @unittest.skipUnless(shutil.which("gdb") and platform.machine() == "x86_64",
                         "there is no gdb here, or its registers have other names")
    def test_a_debugger_stops_at_a_line_of_one_rank(self):
        self.plant(parts=ONE_RANK_ADDS)
        line = 1 + ONE_RANK_ADDS.splitlines().index("    piece = piece + 1")
        done = subprocess.run(
            ["gdb", "-batch", "-ex", f"break shardlab_statement if $rdi == 3 && $rsi == {line}",
             "-ex", "run", "-ex", "print $rdi", "-ex", "print $rsi", "-ex", "kill",
             "--args", PROGRAM, "run", "--scheduler", "threads", "parts.toml"],
            cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
            check=False,
        )
        self.assertIn(f"$1 = 3\n$2 = {line}\n", done.stdout, done.stderr)

    def test_json_has_the_prints_of_all_ranks(self):
        printed = json.loads(self.fine("run", "--json", text=RANK_PRINTS))["printed"]
        self.assertEqual(printed[0], {"line": 8, "text": "before", "by": "all"})
        self.assertIn({"line": 12, "text": "only here", "by": "rank 3"}, printed)
        self.assertIn({"line": 15, "text": "pass 1", "by": "ranks 0,2,3"}, printed)

    def test_the_prints_are_the_same_on_every_scheduler(self):
        wanted = self.section(self.fine("run", text=RANK_PRINTS), "printed")
        for scheduler in (("threads",), ("seeded", "--seed", "5")):
            output = self.fine("run", "--scheduler", *scheduler, text=RANK_PRINTS)
            self.assertEqual(self.section(output, "printed"), wanted)

    def test_classes_of_ranks_print_with_what_they_are(self):
        output = self.fine("run", "--backend", "fake", text=CLASS_PRINTS)
        self.assertEqual(self.section(output, "printed"), CLASSES_PRINTED)
        for rank, rows, column in ((0, 2, 0), (4, 2, 1), (11, 1, 2)):
            output = self.fine("run", "--backend", "fake", "--rank", str(rank), text=CLASS_PRINTS)
            self.assertEqual(self.section(output, f"printed by rank {rank}"), [
                f"  rows {rows}", *(["  second column"] if column == 1 else []), "  done"])

    def test_hooks_change_gradients_alike_on_ranks_and_on_one_device(self):
        output = self.fine("run", text=HOOKS)
        self.assertIn("met  w.grad", output)
        self.assertIn("6 ranks, 1 value verified, 1 collective", output)

    def test_what_groups_and_meshes_say_makes_no_classes(self):
        output = self.fine("run", "--backend", "fake", "--set", "mesh.dp=32", "--set", "mesh.tp=64",
                           text=GROUPS)
        self.assertIn("\n2,048 ranks in 4 classes\n", output)
        self.assertEqual(self.section(output, "printed"), ["  64 64 2048"])

    def test_a_title_has_something_below_it(self):
        code, output, errors = self.shardlab("run", text=FAILS_AT_ONCE)
        self.assertEqual(code, 1)
        self.assertIn("at once", errors)
        self.assertEqual(self.section(output, "printed"), ["  here"])
        lines = output.splitlines()
        for i, line in enumerate(lines):
            if line in ("single calls", "values against the single-device run"):
                self.assertTrue(lines[i + 1].startswith(" "), output)

    # Each rank holds 4 or 3 rows of 7 and 4 of 8 columns: an all_gather of f32[7@dp, 8@tp] over tp
    # brings rank 0 the other half of its 4 rows: 4 * 4 * 4 = 64 bytes.
    def test_a_dim_named_for_pieces_that_gets_replicas_is_warned_of(self):
        def warnings(first, second):
            text = SHARDED.format(first, second)
            return json.loads(self.fine("run", "--json", text=text))["warnings"]
        for names in (("dp_shard", "cp"), ("cp", "tp"), ("fsdp", "ep")):
            with self.subTest(names=names):
                (warning,) = warnings(*names)
                self.assertIn("mesh.replicas-meant", warning)
                self.assertIn(f"replicas along {names[0]}", warning)
        for names in (("dp_replicate", "dp_shard"), ("dp", "fsdp"), ("node", "gpu")):
            with self.subTest(names=names):
                self.assertEqual(warnings(*names), [])

    def test_json_has_the_meshes_of_tensors_where_there_are_several(self):
        facts = json.loads(self.fine("run", "--json", text=VIEWS))
        dims = [[(dim["name"], dim["size"]) for dim in mesh["dims"]] for mesh in facts["meshes"]]
        self.assertEqual(dims, [[("dp", 2), ("tp", 3)], [("w", 6)], [("tp", 3)]])
        self.assertEqual([mesh["id"] for mesh in facts["meshes"]], [0, 1, 2])
        names = [mesh["name"] for mesh in facts["meshes"]]
        self.assertEqual(names, ["mesh", "{w:6}", 'mesh["tp"]'])
        self.assertEqual([mesh.get("parent") for mesh in facts["meshes"]], [None, None, 0])
        on = {value["name"]: value["mesh"] for value in facts["values"]}
        self.assertEqual(on, {"a": 0, "b": 1, "c": 2})
        one = json.loads(self.fine("run", "--json", text=VIEWS.split("b = ")[0] + '"""\n'))
        self.assertNotIn("meshes", one)
        self.assertNotIn("mesh", one["values"][0])

    def test_a_graph_with_moves_between_meshes_is_a_scenario(self):
        written = self.fine("trace", "--toml", text=MOVED)
        self.assertIn('DeviceMesh("cpu", [[0, 2], [1, 3]]', written)
        self.assertIn("mesh=", written)
        counts = [json.loads(self.fine("run", "--json", text=text))["collectives"]["largest_rank"]
                  for text in (MOVED, written)]
        self.assertEqual(counts[0], counts[1])

    def test_ranks_in_another_order_are_warned_of(self):
        def warnings(more):
            return json.loads(self.fine("run", "--json", text=REORDERED.format(more)))["warnings"]
        (warning,) = warnings("")
        self.assertTrue(warning.startswith("line 6: mesh.sorted-groups: "), warning)
        self.assertEqual(warnings(", preserve_rank_order=True"), [])

    def test_implicit_redistributions_are_listed_where_the_scenario_asks_for_warnings(self):
        output = self.fine("run", text=IMPLICIT)
        moves = "redistributes argument {} from f32[7@dp, 8@tp] to f32[7@dp, 8]"
        self.assertIn("\nwarning: line 12: aten::_softmax " + moves.format("self")
                      + ", 3 times, 192 B sent by rank 0\n", output)
        self.assertIn("\nwarning: line 13: aten::native_layer_norm " + moves.format("input")
                      + ", 64 B sent by rank 0\n", output)
        self.assertIn(", 4 implicit redistributions\n", output.splitlines(True)[-1])
        warnings = json.loads(self.fine("run", "--json", text=IMPLICIT))["warnings"]
        self.assertEqual(len(warnings), 2, warnings)
        allowed = self.fine("run", text=IMPLICIT.replace('"warn"', '"allow"'))
        self.assertNotIn("warning:", allowed)
        self.assertIn(", 4 implicit redistributions\n", self.fine("test", text=IMPLICIT))

    def explained(self, output):
        """Ops with candidates below them."""
        lines = output.splitlines()
        return [lines[i - 1].split()[0] for i in range(1, len(lines))
                if lines[i].lstrip().startswith("* ") and "->" in lines[i - 1]]

    def test_why_explains_the_ops_of_a_value_also_inside_of_a_def(self):
        self.assertEqual(self.explained(self.fine("run", "--why", "block.h", text=VALUES)),
                         ["mul.Scalar"])
        self.assertEqual(self.explained(self.fine("run", "--why", "b", text=VALUES)),
                         ["mul.Scalar", "exp"])
        self.assertEqual(self.explained(self.fine("run", "--why", "exp", text=VALUES)), ["exp"])

    def why_refused(self, name):
        code, output, errors = self.shardlab("run", "--why", name, text=VALUES)
        self.assertEqual((code, output), (2, ""))
        return errors

    def test_why_of_an_unknown_name_is_refused_with_the_nearest(self):
        errors = self.why_refused("block.g")
        self.assertIn("error: --why block.g: the run has no op, line or value of that name\n",
                      errors)
        self.assertIn("did you mean 'block.h'?", errors)
        self.assertIn("lines 9, 10, 13", self.why_refused("77"))
        self.assertIn("did you mean 'exp'?", self.why_refused("expp"))

    def test_why_of_a_gradient_explains_the_backward_pass_of_the_lines_that_name_its_tensor(self):
        direct = VALUES.replace("block(a)", "block(a * 3)").replace("h = v * 2", "h = v * a2")
        direct = direct.replace("def block", "a2 = a * 2\ndef block")
        output = self.fine("run", "--why", "a.grad", text=direct)
        self.assertNotIn("\nforward", output)
        self.assertEqual(self.explained(output), ["mul.Scalar", "mul.Scalar", "add.Tensor"])

    def test_why_of_a_gradient_or_an_input_says_what_exists(self):
        self.assertIn("--why a.grad: a gradient is the sum of what many ops",
                      self.why_refused("a.grad"))
        self.assertIn("--why a: an input is given", self.why_refused("a"))

    def test_values_without_an_op_stand_below_a_title(self):
        output = self.fine("run", "--full", text=LOCAL)
        self.assertEqual(self.section(output, "forward")[0].split(), ["6", "w", "=", "ones([3])"])

    def test_json_says_nan_and_infinities_in_quotes(self):
        code, output, _ = self.shardlab("run", "--json", "--values", "all", text=INFINITE)
        self.assertEqual(code, 0)
        values = {value["name"]: value["whole"][0] for value in
                  json.loads(output, parse_constant=self.fail)["values"]}
        self.assertEqual(values["up"]["elements"], ["inf", -1, 1])
        self.assertEqual(values["down"]["elements"], ["-inf", "inf", "-inf"])
        self.assertEqual(values["root"]["elements"], [0, "nan", 1])

    def test_a_coordinate_needs_no_brackets(self):
        text = ("[mesh]\nx = 2\ny = 2\n[program]\n"
                "code = 'print(mesh.coordinate, mesh.coordinate())'\n")
        self.assertEqual(self.section(self.fine("run", text=text), "printed"), [
            "  rank 0: (0, 0) (0, 0)", "  rank 1: (0, 1) (0, 1)",
            "  rank 2: (1, 0) (1, 0)", "  rank 3: (1, 1) (1, 1)"])

    def test_one_of_a_kind_is_singular(self):
        text = "[mesh]\nx = 1\n[inputs]\na = 'f32[3]'\n[program]\ncode = 'b = a + 1'\n"
        self.assertIn("  1 rank, 1 value verified, 0 collectives\n", self.fine("run", text=text))


class Reports(Program):
    """A report on two screens, in a few lines, of one line, and of everything."""

    @contextlib.contextmanager
    def started(self, *arguments, text):
        """The run of a text as t.toml, which continues; killed in the end."""
        self.plant(t=text)
        with subprocess.Popen([PROGRAM, *arguments], cwd=self.folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              encoding="utf-8") as run:
            try:
                yield run
            finally:
                run.kill()

    def test_what_repeats_stands_once_and_every_line_has_a_row(self):
        output = self.fine("run", text=LAYERS)
        self.assertEqual(self.section(output, "in order of execution, by line"), [
            "  forward",
            "    (11, 12 all_reduce tp 128 B) x 3, 16 all_reduce dp 4 B",
            "  backward",
            "    17, 16, 12, 11 all_gather tp 64 B x 2",
        ])
        rows = [line.split() for line in output.splitlines()]
        self.assertIn("all_reduce over tp, asked for 3 384 B".split(), [row[:8] for row in rows])
        self.assertIn("mm f32[7@dp, 8], f32[8@tp, 8] -> f32[7@dp, 8]{sum:tp}".split(),
                      [row[1:] for row in rows])
        self.assertLess(len(output.splitlines()), 60)
        for line in output.splitlines():
            self.assertLessEqual(len(line), 100, line)

    def test_a_model_of_two_layers_takes_two_screens(self):
        output = self.fine("run", "llama3/small")
        first = output[:output.index("\nok ")].splitlines()
        self.assertLessEqual(len(first), 100)
        self.assertIn("  27 to 41  9 lines, no collective: f32[2], f32[7, 2], and 5 more types"
                      "                     rounding", first)
        # An op that sends, and one that multiplies, has a row of its own.
        rows = [line.split()[0] for line in first if line[4:5].isdigit() and line[5] == " "]
        self.assertTrue({"25", "44", "45", "50", "58"}.issubset(rows), rows)
        full = self.fine("run", "--full", "llama3/small")
        self.assertIn("computed by rank 0, forward + backward, in products and convolutions by "
                      "line\n", full)

    def test_a_failed_run_begins_with_its_line_and_the_reason(self):
        head = '[mesh]\ntp = 2\n[inputs]\nx = "f32[8@tp]"\n[program]\ncode = """\n'
        for code, lead in (
                ("l = x.to_local()\nif rank == 0:\n    dist.all_reduce(l)",
                 ["failed  line 9: dist.all_reduce(l)", "why     deadlock: no rank can advance"]),
                ("y = x.sum(3)", ["failed  line 7: y = x.sum(3)", "why     dim 3 is out of range"]),
                ("y = from_local(x.to_local() + 1, mesh=mesh, tp=P(sum))",
                 ["wrong   line 7: y = from_local(x.to_local() + 1, mesh=mesh, tp=P(sum))",
                  "why     under the label tp=S(0)"])):
            with self.subTest(code=code):
                status, out, _ = self.shardlab("run", text=f'{head}{code}\n"""\n')
                self.assertEqual(status, 1)
                for line, expected in zip(out.split("\n"), lead):
                    self.assertTrue(line.startswith(expected), line)

    def test_a_summary_has_a_few_lines(self):
        output = self.fine("run", "--summary", text=LAYERS)
        self.assertLess(len(output.splitlines()), 8)
        self.assertIn("collectives of rank 0: 6, 516 B sent, ", output)
        self.assertTrue(output.splitlines()[-1].startswith("ok     t.toml  4 ranks"))

    def test_the_points_of_a_matrix_end_in_one_table(self):
        code, output, errors = self.shardlab("run", "--summary", text="""
mesh = { tp = 2 }
matrix = { "mesh.tp" = [1, 2], rows = [4, 5] }
params = { rows = 4 }
inputs = { x = "f32[rows@tp, 3]" }
program = { code = "y = full_tensor(x)" }
""")
        self.assertEqual((code, errors), (0, ""), output)
        rows = [re.split(r"  +", row) for row in output.rpartition("\n\n")[2].splitlines()]
        self.assertEqual(rows[0], ["t.toml", "collectives", "sent", "predicted", "peak"])
        # A ring of two ranks sends half of the bytes: 4 x 3 and 5 x 3 numbers of 4 bytes.
        self.assertEqual([row[:4] for row in rows[1:]], [
            ["mesh.tp=1,rows=4", "ok", "0", "0 B"], ["mesh.tp=1,rows=5", "ok", "0", "0 B"],
            ["mesh.tp=2,rows=4", "ok", "1", "24 B"], ["mesh.tp=2,rows=5", "ok", "1", "30 B"]])

    def test_a_line_alone_has_every_event_of_it(self):
        output = self.fine("run", "--line", "12", text=LAYERS)
        self.assertEqual(self.section(output, "forward"), [
            "   12  return h.redistribute(tp=R)  x 3",
            "         redistribute       f32[7@dp, 8]{sum:tp} -> f32[7@dp, 8]",
            "           all_reduce over tp (2 ranks), 128 B sent per rank, 12.0 us predicted, "
            "asked for",
        ])
        code, output, errors = self.shardlab("run", "--line", "99", text=LAYERS)
        self.assertEqual((code, output), (2, ""))
        self.assertIn("--line 99: the run did nothing there", errors)
        self.assertIn("lines 11, 12, 15, 16, 17", errors)

    def test_everything_is_everything(self):
        output = self.fine("run", "--full", text=LAYERS)
        self.assertEqual(output.count("all_reduce over tp (2 ranks), 128 B sent per rank"), 3)
        self.assertEqual(output.count("= layer.h "), 3)

    def test_why_has_the_lines_that_are_asked_about_alone(self):
        output = self.fine("run", "--why", "mm", text=LAYERS)
        self.assertNotIn("return h", output)
        self.assertIn("   11  h = x.redistribute(tp=S(1)) @ w  x 3\n", output)

    def test_json_has_lines_and_order(self):
        report = json.loads(self.fine("run", "--json", text=LAYERS))
        self.assertEqual(report["order"][0]["times"], 3)
        self.assertEqual([(part["line"], part["pass"]) for part in report["order"][0]["parts"]],
                         [(11, "forward"), (12, "forward")])
        (line,) = [line for line in report["lines"] if line["line"] == 12]
        self.assertEqual((line["forward"], line["ways"]), (3, 1))
        self.assertEqual((line["inputs"], line["outputs"]),
                         (["f32[7@dp, 8]{sum:tp}"], ["f32[7@dp, 8]"]))
        (sent,) = line["collectives"]
        self.assertEqual((sent["kind"], sent["times"], sent["sent_bytes"], sent["origin"]),
                         ("all_reduce", 3, 384, "asked"))

    # 4 of 7 rows by 4 of 8: 2 * 4 * 4 * 8 three times; backward two products each, the first x has
    # no gradient.
    def test_what_a_rank_computes_is_told(self):
        output = self.fine("run", text=LAYERS)
        (title,) = [line for line in output.splitlines() if line.startswith("computed by rank 0")]
        self.assertIn("forward + backward", title)
        self.assertIn("  11: 768 FLOP + 1.28 kFLOP\n", output)
        lines = json.loads(self.fine("run", "--json", text=LAYERS))["lines"]
        self.assertEqual([line["flops"] for line in lines if line["line"] == 11],
                         [{"forward": 768, "backward": 1280}])

    def test_links_are_told_once_and_can_be_given(self):
        output = self.fine("run", text=LAYERS)
        self.assertEqual(output.count("links: dp, tp 19.3 GB/s, 2.7 us a hop (assumed)\n"), 1)
        given = ("--link", "tp=400,1.5", "--set", "topology.dp.us=8")
        output = self.fine("run", *given, text=LAYERS)
        self.assertIn("  links: dp 19.3 GB/s, 8 us a hop; tp 400 GB/s, 1.5 us a hop\n", output)
        # An all_reduce over two ranks: 6.6 us and two hops; the bytes take no time to speak of.
        self.assertIn("12.0 us (", self.fine("run", text=LAYERS))
        self.assertIn("  9.6 us predicted", self.fine("run", *given, "--line", "12", text=LAYERS)
                      .replace(", 9.6", ",  9.6"))
        links = json.loads(self.fine("run", "--json", *given, text=LAYERS))["collectives"]["links"]
        self.assertEqual(links["tp"], {"gbps": 400, "us": 1.5, "given": True})
        for wrong in (("--link", "tp=400"), ("--link", "pp=4,1"), ("--set", "topology.tp.us=-1")):
            code, output, errors = self.shardlab("run", *wrong, text=LAYERS)
            self.assertEqual((code, output), (2, ""), wrong)
            self.assertIn("fix ", errors)

    def test_a_run_that_would_take_long_says_so_at_the_start(self):
        # 100 * 2 * 4000^3 multiplications and additions on two ranks: some minutes.
        with self.started("run", "t.toml", text=LONG) as run:
            self.assertRegex(run.stderr.readline(), r"^note: 2 ranks would compute for about "
                             r"\d+ (min|h) on one core .* --backend fake shows all but values")
        self.assertEqual(self.shardlab("run", "--backend", "fake", text=LONG)[2], "")

    def test_an_interrupted_run_says_where_it_was(self):
        with self.started("run", "t.toml", text=ENDLESS) as run:
            time.sleep(1)
            run.send_signal(signal.SIGINT)
            self.assertRegex(run.stderr.read(),
                             r"\ninterrupted on the ranks, line (7|8), \d+ calls\n$")
            self.assertEqual(run.wait(), 130)

    def test_interrupted_tests_say_how_many_are_through_and_which_run(self):
        self.plant(a=LAYERS)
        with self.started("test", "a.toml", "t.toml", text=ENDLESS) as run:
            time.sleep(1)
            run.send_signal(signal.SIGINT)
            self.assertRegex(run.stderr.read(),
                             r"\ninterrupted after 1 of 2 scenarios, in t\.toml\n$")
            self.assertEqual(run.wait(), 130)

    def test_a_terminal_sees_where_a_long_run_is(self):
        self.plant(t=ENDLESS)
        leader, follower = os.openpty()
        run = subprocess.Popen([PROGRAM, "run", "t.toml"], cwd=self.folder, stderr=follower,
                               stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        os.close(follower)
        seen = b""
        while b" s" not in seen:
            seen += os.read(leader, 200)
        self.assertRegex(seen.decode(), r"t\.toml: on the ranks, line \d+, \d+ calls, 2 s")

    def on_terminal(self, columns, *arguments):
        """What a terminal of so many columns shows."""
        leader, follower = os.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
        run = subprocess.Popen([PROGRAM, "run", *arguments], cwd=self.folder, stdout=follower,
                               stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                               env={**environment, "NO_COLOR": "1"})
        os.close(follower)
        shown = b""
        with contextlib.suppress(OSError):  # the end
            while part := os.read(leader, 65536):
                shown += part
        os.close(leader)
        self.assertEqual(run.wait(), 0)
        return shown.decode().replace("\r\n", "\n").splitlines()

    def test_tables_fit_the_terminal(self):
        long = "h = gelu(x @ w)" + "".join(f" + {i}.0 * x.sum()" for i in range(9))
        self.plant(t=f"""
mesh = {{ dp = 2, tp = 2 }}
[inputs]
x = "f32[8@dp, 16]"
w = "f32[16, 64@tp]"
[program]
code = '''
{long}
y = h.redistribute(tp=R).sum().redistribute(dp=R)
'''
""")
        for columns in (80, 100, 160):
            lines = self.on_terminal(columns, "t.toml")
            self.assertLessEqual(max(map(len, lines)), columns, columns)
            title = next(line for line in lines if line.startswith("by line"))
            self.assertEqual(title.split()[2:], ["times", "sent", "predicted"])
            rows = [line for line in lines if re.search(r"all_\w+ over \w+, ", line)]
            self.assertGreater(len(rows), 1)
            for row in rows:  # its figures are below their titles
                self.assertRegex(row, r" \d+\+?\d* +[\d.]+ [KM]?i?B +[\d.]+ us$")
                self.assertEqual(len(row), len(title))
            for line in lines:  # no figure is parted from its unit
                self.assertNotRegex(line, r"^ *(B|KiB|us|ms|kFLOP)\b", columns)
            code = next(line for line in lines if "h = gelu" in line)
            self.assertGreater(len(code), columns - 30)

    def test_ops_on_pieces_are_seen(self):
        rows = [line.split() for line in self.fine("run", text=PIECES).splitlines()]
        self.assertIn("10 m = l @ l.t() local f32[4, 6] -> f32[4, 4] differs".split(), rows)
        output = self.fine("run", "--line", "10", text=PIECES)
        self.assertEqual(self.section(output, "forward"), [
            "   10  m = l @ l.t()",
            "         local t                  f32[4, 6] -> f32[6, 4]",
            "         local mm                 f32[4, 6], f32[6, 4] -> f32[4, 4]",
        ])
        report = json.loads(self.fine("run", "--json", text=PIECES))
        self.assertIn({"pass": "forward", "line": 10, "depth": 0, "local_op": "aten::t",
                       "inputs": ["f32[4, 6]"], "outputs": ["f32[6, 4]"]}, report["events"])


class Memory(Program):
    def peak(self, layers):
        output = self.fine("run", "--json", "--backend", "fake", "--set", f"params.layers={layers}",
                           text=KEEPS)
        return json.loads(output)["memory"]["peak"]

    def test_each_layer_adds_its_weights_and_what_it_keeps(self):
        few, more = self.peak(2), self.peak(3)
        self.assertEqual(more["kept_for_backward"] - few["kept_for_backward"], 16 << 20)
        self.assertEqual(more["inputs"] - few["inputs"], 4 << 20)
        purposes = [more[key] for key in more if key not in ("bytes", "line", "pass")]
        self.assertEqual(sum(purposes), more["bytes"])

    def test_the_timeline_is_a_picture_and_a_list(self):
        arguments = "run", "--backend", "fake", "--memory-timeline"
        output = self.fine(*arguments, text=KEEPS)
        self.assertIn("memory of rank 0 in the course of the program", output)
        self.assertIn("kept for backward", output)
        memory = json.loads(self.fine(*arguments, "--json", text=KEEPS))["memory"]
        points = memory["timeline"]
        self.assertEqual(max(point["bytes"] for point in points), memory["logical_rank_bytes"])
        self.assertEqual({point["pass"] for point in points}, {"forward", "backward"})


class Explain(Program):
    def calls(self, *arguments):
        """(the first line, then the op lines without the lines below them)"""
        lines = self.fine("explain", *arguments).splitlines()
        return [lines[0]] + [line.strip() for line in lines[1:]
                             if line.startswith("  ") and not line.startswith("   ")]

    def test_a_composite_is_explained_call_by_call(self):
        call = ("f32[7@x, 16]", "f32[4@y, 16]", "--mesh", "x=2,y=2")
        output = self.fine("explain", "F.linear", *call)
        lines = output.splitlines()
        self.assertEqual(lines[0], "F.linear gives f32[7@x, 4@y], by 2 ops in this order:")
        self.assertEqual(lines[1].split(), ["t", "f32[4@y,", "16]", "->", "f32[16,", "4@y]"])
        mm = next(i for i, line in enumerate(lines) if line.startswith("  mm "))
        self.assertEqual(lines[mm].split(maxsplit=1)[1],
                         "f32[7@x, 16], f32[16, 4@y] -> f32[7@x, 4@y]")
        self.assertIn("chosen:", output[output.index("  mm "):])
        self.assertEqual(self.calls("linear", *call)[1:], self.calls("F.linear", *call)[1:])

    def test_what_a_part_moves_stands_below_it(self):
        output = self.fine("explain", "F.layer_norm", "f32[5, 8@x]", "[8]", "--mesh", "x=4")
        self.assertIn("moves: input 0 f32[5, 8@x] => f32[5, 8]", output)
        self.assertIn("all_gather over x (4 ranks)", output)

    def test_attention_and_losses_have_their_parts(self):
        calls = self.calls("F.scaled_dot_product_attention", *["f32[2, 4@x, 5, 8]"] * 3,
                           "is_causal=true", "--mesh", "x=2")
        self.assertIn("F.scaled_dot_product_attention gives f32[2, 4@x, 5, 8], by", calls[0])
        self.assertIn("bmm", [call.split()[0] for call in calls])
        self.assertIn("_softmax", [call.split()[0] for call in calls])
        calls = self.calls("cross_entropy", "f32[7@x, 5]", "i64[7@x]", "reduction=sum",
                           "--mesh", "x=2")
        self.assertIn("gives f32[]{sum:x}", calls[0])

    def test_lists_of_types(self):
        output = self.fine("explain", "cat", "[f32[3@x, 4], f32[5, 4]]", "0", "--mesh", "x=2")
        self.assertIn("f32[3@x, 4], f32[5, 4]", output.splitlines()[0])
        torch = self.fine("explain", "torch.cat", "[f32[3@x, 4], f32[3, 4]]", "dim=1",
                          "--mesh", "x=2")
        self.assertTrue(torch.startswith("torch.cat gives f32[3@x, 8]"), torch)

    def test_json_has_every_call(self):
        output = self.fine("explain", "F.linear", "f32[7@x, 16]", "f32[4, 16]", "--mesh", "x=2",
                           "--json")
        report = json.loads(output)
        self.assertEqual(report["outputs"], ["f32[7@x, 4]"])
        self.assertEqual([call["op"] for call in report["calls"]], ["aten::t", "aten::mm"])
        self.assertTrue(report["calls"][1]["candidates"])

    def test_what_cannot_be_is_refused(self):
        for arguments, reason in [
            (("F.linear", "f32[7@x, 16]", "f32[4, 15]"), "cannot be multiplied"),
            (("F.lineer", "f32[7@x, 16]", "f32[4, 16]"), "unknown op 'F.lineer'"),
            (("F.linear", "f32[7@z, 16]", "f32[4, 16]"), "z"),
            (("F.linear", "f32[7@x, 16]", "4 + 4"), "'4 + 4' is neither a type nor a value"),
        ]:
            code, output, errors = self.shardlab("explain", *arguments, "--mesh", "x=2")
            self.assertEqual((code, output), (2, ""), arguments)
            self.assertIn(reason, errors)
            self.assertNotIn("explain:", errors)


@unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full here")
class FullDisk(Program):
    def test_output_that_nobody_got_is_told_by_every_command(self):
        self.plant(t=ONE_RANK_ADDS)
        self.fine("trace", "t.toml", "--out", "t.graph")
        for arguments in [
            ("run", "t.toml"), ("run", "--json", "t.toml"), ("test", "t.toml"), ("ops",),
            ("trace", "t.toml"), ("replay", "t.graph"), ("explain", "relu", "f32[4]", "--mesh",
            "x=2"), ("show", "f32[4]", "--mesh", "x=2"), ("completion", "bash"), ("--help",),
            ("doctor", "--json"), ("verify-ops", "relu"),
        ]:
            with open("/dev/full", "wb") as full:
                done = subprocess.run([PROGRAM, *arguments], cwd=self.folder, stdout=full,
                                      stderr=subprocess.PIPE, encoding="utf-8", check=False)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn("could not be written: No space left", done.stderr, arguments)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
