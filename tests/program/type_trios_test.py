#!/usr/bin/env python3
"""One program in three forms, on distributed tensors, on plain ones with moves of spmd_types, and
that annotated by `shardlab types`: all have one verdict, whether the program is right or not.

    type_trios_test.py PROGRAM
"""

import json
import random
import sys
import unittest

from program import Program

ACTIVATIONS = ("torch.relu", "torch.tanh", "torch.sigmoid", "F.gelu")
# One text of all forms, and the mistake in its place. Without claims a program that reads its rank
# may mean that its values differ, which --strict fails.
MISTAKES = (("pow(2).sum()", "pow(2).sum() * (1 + rank)"), (" + bias0", " + bias0 * (1 + rank)"))


def inputs(rows, width, inner, layers):
    lines = [f'x0 = "f32[{rows}@dp, {width}]"']
    for i in range(layers):
        lines.append(f'up{i}w = {{ type = "f32[{width}, {inner}@tp]", scale = 0.3 }}')
        lines.append(f'down{i}w = {{ type = "f32[{inner}@tp, {width}]", scale = 0.3 }}')
        lines.append(f'bias{i}w = {{ type = "f32[{width}]", scale = 0.3 }}')
    return lines


def names(layers):
    return [f"{name}{i}" for i in range(layers) for name in ("up", "down", "bias")]


def distributed(activations):
    lines = ["y = x0"]
    lines += [f"{name} = {name}w.detach().requires_grad_()" for name in names(len(activations))]
    for i, activation in enumerate(activations):
        lines.append(f"h{i} = {activation}(y @ up{i})")
        lines.append(f"t{i} = (h{i} @ down{i}).redistribute(placements=[Shard(0), Replicate()])")
        lines.append(f"y = t{i} + bias{i}")
    return lines


def local(activations):
    lines = ["import spmd_types as spmd", "y = x0.to_local()"]
    lines += [f"{name} = {name}w.to_local().detach().requires_grad_()"
              for name in names(len(activations))]
    for i, activation in enumerate(activations):
        lines.append(f'r{i} = spmd.convert(y, "tp", src=spmd.I, dst=spmd.R)')
        lines.append(f"h{i} = {activation}(r{i} @ up{i})")
        lines.append(f'y = spmd.all_reduce(h{i} @ down{i}, "tp", src=spmd.P, dst=spmd.I) + bias{i}')
    return lines


def ended(lines, layers, summed):
    lines = [*lines, "loss = y.pow(2).sum()", "loss.backward()"]
    for name in names(layers):
        if summed:
            lines.append(f'dist.all_reduce({name}.grad, group="dp")')
        lines.append(f"{name}_next = {name}.detach() - 0.1 * {name}.grad")
    return "".join(line + "\n" for line in lines)


class Trios(Program):
    def verdict(self, text):
        code, output, errors = self.shardlab("run", "--strict", text=text)
        self.assertIn(code, (0, 1), output + errors)
        return code

    def annotated(self, head, code):
        self.plant(u=f'{head}{code}"""\n')
        self.fine("types", "u.toml", "--annotate", "--out", "a.py")
        return (self.folder / "a.py").read_text(encoding="utf-8")

    def test_three_forms_have_one_verdict(self):
        for seed in range(4):
            draw = random.Random(seed)
            activations = [draw.choice(ACTIVATIONS) for _ in range(draw.choice((1, 2)))]
            dp, tp = draw.choice(((2, 2), (2, 3), (3, 2)))
            sizes = inputs(draw.choice((5, 6)), draw.choice((4, 5)), draw.choice((6, 7)),
                           len(activations))
            head = "\n".join([f"seed = {seed}", "[mesh]", f"dp = {dp}", f"tp = {tp}", "[inputs]",
                              *sizes, "[program]", 'code = """\n'])
            codes = [ended(form(activations), len(activations), form is local)
                     for form in (distributed, local)]
            codes.append(self.annotated(head, codes[1]))
            self.assertIn("assert_type(", codes[2])
            self.assertEqual(self.annotated(head, codes[2]), codes[2])
            forms = [f'{head}{code}"""\n' for code in codes]
            self.assertEqual([self.verdict(form) for form in forms], [0, 0, 0], seed)
            for text, mistake in MISTAKES:
                wrong = [form.replace(text, mistake, 1) for form in forms]
                self.assertEqual([self.verdict(form) for form in wrong], [1, 1, 1], (seed, mistake))

    def types(self, text):
        """Types by mesh dim of each name, the last line of a name."""
        self.plant(t=text)
        values = json.loads(self.fine("types", "--json", "t.toml"))["values"]
        return {value["name"]: value["types"] for value in values}

    def test_distributed_tensors_have_the_types_of_local_ones(self):
        for seed in range(3):
            draw = random.Random(seed)
            activations = [draw.choice(ACTIVATIONS)]
            head = "\n".join(["[mesh]", "dp = 2", f"tp = {draw.choice((2, 3))}", "[inputs]",
                              *inputs(draw.choice((5, 6)), 4, 7, 1), "[program]", 'code = """\n'])
            found = [self.types(f'{head}{ended(form(activations), 1, form is local)}"""\n')
                     for form in (distributed, local)]
            for name in ("h0", "y", "up0", "down0", "bias0", "loss"):
                # The sum of a distributed loss is pending on both; its bias is added to I.
                wanted = {"loss": ["P", "I"]}.get(name, found[1][name])
                self.assertEqual(found[0][name], wanted, (seed, name))
            self.assertEqual(found[0]["x0"], ["S(0)", found[0]["x0"][1]])
            annotated = self.annotated(head, ended(distributed(activations), 1, False))
            self.assertNotIn("assert_type", annotated)

    def test_claims_on_distributed_tensors_are_judged(self):
        text = ('[mesh]\ndp = 2\ntp = 3\n[inputs]\nx = "f32[7@dp, 4]"\n[program]\ncode = """\n'
                'y = x * 2\nspmd.assert_type(y, {"dp": spmd.%s, "tp": spmd.R})\n"""\n')
        self.fine("run", text=text % "S(0)")
        self.fine("run", text=text % "V")
        code, output, _ = self.shardlab("run", text=text % "S(1)")
        self.assertEqual(code, 1)
        self.assertIn("y is S(0) along dp, not S(1)", output)

    def test_a_stage_has_types_on_its_own_mesh(self):
        text = '''[mesh]
pp = 2
dp = 3
[inputs]
x0 = "f32[7@dp, 4]"
a0 = { type = "f32[4, 5]", scale = 0.3 }
[program]
code = """
import spmd_types as spmd
stage = mesh["dp"]
with spmd.set_current_mesh(stage):
    x = x0.to_local()
    a = a0.to_local().detach().requires_grad_()
    h = torch.relu(x @ a)
    h.sum().backward()
    dist.all_reduce(a.grad, group=stage.get_group("dp"))
"""
'''
        found = self.types(text)
        self.assertEqual(found["x"], ["", "S(0)"])
        self.assertEqual(found["a"], ["", "R"])
        self.assertEqual(found["h"], ["", "S(0)"])

    def test_sizes_of_pieces_are_no_sizes_of_one_device(self):
        text = '''[mesh]
tp = 3
[inputs]
x0 = "f32[5]"
w0 = "f32[5, 8@tp]"
[program]
code = """
import spmd_types as spmd
x = x0.to_local()
w = w0.to_local()
h = x @ w
g = spmd.all_gather(h, "tp", src=spmd.S(0), dst=spmd.R, split_sizes=[3, 3, 2])
s = spmd.reduce_scatter(g, "tp", src=spmd.P, dst=spmd.S(0), split_sizes=[4, 1, 3])
"""
'''
        found = self.types(text)
        self.assertEqual((found["h"], found["g"]), (["S(0)"], ["R"]))

    def test_cuts_in_every_order_have_a_spec(self):
        """Package 0.3.1 takes the names of a PartitionSpec outermost first, in any order."""
        head = '''[mesh]
dp = 2
cp = 3
[inputs]
x = "f32[13@(cp,dp), 4]"
y = "f32[13@(dp,cp), 4]"
z = "f32[8, 12@(cp,dp)]"
w = "f32[9@cp, 4@dp]"
[program]
code = """
'''
        code = "".join(f"{name} = {name[0]}.to_local()\n" for name in ("xl", "yl", "zl", "wl"))
        annotated = self.annotated(head, code)
        for name, types, spec in (("xl", "", ', spmd.PartitionSpec(("cp", "dp"), None)'),
                                  ("yl", "", ', spmd.PartitionSpec(("dp", "cp"), None)'),
                                  ("zl", "", ', spmd.PartitionSpec(None, ("cp", "dp"))'),
                                  ("wl", '"dp": spmd.S(1), "cp": spmd.S(0)', "")):
            self.assertIn(f"assert_type({name}, {{{types}}}{spec})\n", annotated)
        self.assertEqual(self.annotated(head, annotated), annotated)
        self.fine("run", "--types", "strict", text=f'{head}{annotated}"""\n')
        other = annotated.replace('("cp", "dp"), None', '("dp", "cp"), None')
        self.assertEqual(self.verdict(f'{head}{other}"""\n'), 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
