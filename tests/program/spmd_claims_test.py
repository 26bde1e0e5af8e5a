#!/usr/bin/env python3
"""Claims of programs with spmd_types: mistakes are found at their line, right twins are left alone.

    spmd_claims_test.py PROGRAM

Each mistake is one edit of a right program, whose claims are all verified. Sizes, meshes and seeds
differ, and lines that do not matter stand in between. The checker of spmd_types 0.3.1 was asked,
too (torch 2.15, a fake group of 4 ranks, the loss z.sum() in global mode): of the 13 it accepts 7
in local mode and 5 in global mode.
"""

import json
import random
import sys
import unittest

from program import Program

INPUTS = """
x0 = "f32[{rows}@dp, {hidden}]"
scale0 = "f32[{hidden}]"
up0 = {{ type = "f32[{hidden}, {hidden}@tp]", scale = 0.3 }}
down0 = {{ type = "f32[{hidden}@tp, {hidden}]", scale = 0.3 }}
bias0 = {{ type = "f32[{hidden}]", scale = 0.3 }}
"""
RIGHT = """import spmd_types as spmd
x = x0.to_local()
scale = scale0.to_local().detach().requires_grad_()
up = up0.to_local().detach().requires_grad_()
down = down0.to_local().detach().requires_grad_()
bias = bias0.to_local().detach().requires_grad_()
spmd.assert_type(x, {"dp": spmd.S(0), "tp": spmd.I})
spmd.assert_type(scale, {"dp": spmd.R, "tp": spmd.I})
spmd.assert_type(up, {"dp": spmd.R, "tp": spmd.S(1)})
spmd.assert_type(down, {"dp": spmd.R, "tp": spmd.S(0)})
spmd.assert_type(bias, {"dp": spmd.R, "tp": spmd.I})
h = x * scale
spmd.assert_type(h, {"dp": spmd.S(0), "tp": spmd.I})
r = spmd.convert(h, "tp", src=spmd.I, dst=spmd.R)
wide = torch.relu(r @ up)
terms = wide @ down
spmd.assert_type(terms, {"dp": spmd.S(0), "tp": spmd.P})
whole = spmd.all_reduce(terms, "tp", src=spmd.P, dst=spmd.I)
y = whole + bias
spmd.assert_type(y, {"dp": spmd.S(0), "tp": spmd.I})
@spmd.no_typecheck(out_types={"dp": spmd.S(0), "tp": spmd.I})
def squared(y):
    return y * y
z = squared(y)
u = z.detach()
spmd.mutate_type(u, "tp", src=spmd.I, dst=spmd.R)
loss = spmd.reinterpret(z.sum(), "dp", src=spmd.V, dst=spmd.P)
loss.backward()
with spmd.no_typecheck():
    for p in [scale, up, down, bias]:
        dist.all_reduce(p.grad, group="dp")
    up_next = up.detach() - 0.1 * up.grad
spmd.assert_type(up_next, {"dp": spmd.R, "tp": spmd.S(1)})
"""
# name, text, its replacement, a text in the line of the claim that is wrong.
MISTAKES = [
    ("R for I", 'bias, {"dp": spmd.R, "tp": spmd.I}', 'bias, {"dp": spmd.R, "tp": spmd.R}',
     "assert_type(bias"),
    ("I for R: the entry left out", 'spmd.convert(h, "tp", src=spmd.I, dst=spmd.R)', "h",
     "assert_type(h"),
    ("I for R of a parameter", 'scale, {"dp": spmd.R', 'scale, {"dp": spmd.I', "assert_type(scale"),
    ("the sum left out", 'spmd.all_reduce(terms, "tp", src=spmd.P, dst=spmd.I)', "terms",
     "assert_type(y"),
    ("P claimed R", 'terms, {"dp": spmd.S(0), "tp": spmd.P}',
     'terms, {"dp": spmd.S(0), "tp": spmd.R}', "assert_type(terms"),
    ("pieces claimed R", 'x, {"dp": spmd.S(0)', 'x, {"dp": spmd.R', "assert_type(x"),
    ("S of another dim", 'up, {"dp": spmd.R, "tp": spmd.S(1)}',
     'up, {"dp": spmd.R, "tp": spmd.S(0)}', "assert_type(up,"),
    ("another mesh dim", 'down, {"dp": spmd.R, "tp": spmd.S(0)}',
     'down, {"dp": spmd.S(0), "tp": spmd.R}', "assert_type(down"),
    ("a false mutate_type", 'mutate_type(u, "tp", src=spmd.I', 'mutate_type(u, "dp", src=spmd.V',
     "mutate_type(u"),
    ("a region that returns terms", "return y * y", "return terms * y", "squared(y)"),
    ("summed twice", "up_next = up", 'dist.all_reduce(up.grad, group="dp")\n    up_next = up',
     "assert_type(up_next"),
    ("summed by nobody", "[scale, up, down, bias]", "[scale, down, bias]", "assert_type(up_next"),
    ("a factor", "0.1 * up.grad", "0.1 * up.grad / 2 * rank", "assert_type(up_next"),
]


def scenario(code, rows, hidden, dp, tp, seed):
    inputs = INPUTS.format(rows=rows, hidden=hidden)
    return (f"seed = {seed}\n[mesh]\ndp = {dp}\ntp = {tp}\n[inputs]{inputs}"
            f"[program]\ncode = '''\n{code}'''\n")


class Claims(Program):
    def judged(self, code, *sizes):
        exit_code, output, errors = self.shardlab("run", "--json", text=scenario(code, *sizes))
        self.assertIn(exit_code, (0, 1), output + errors)
        return exit_code, json.loads(output)["values"]

    def sizes(self, seed):
        draw = random.Random(seed)
        dp, tp = draw.choice(((2, 2), (2, 3), (3, 2)))
        return draw.choice((5, 6, 8)), draw.choice((6, 7)), dp, tp, seed

    def test_right_claims_are_verified(self):
        for seed in range(4):
            exit_code, values = self.judged(RIGHT, *self.sizes(seed))
            off = [(v["name"], v["outcome"], v.get("reason")) for v in values
                   if v["outcome"] not in ("outcome.verified", "outcome.on-the-way")]
            self.assertEqual((exit_code, off), (0, []), seed)
            claims = [v["name"] for v in values if "(" in v["name"]]
            self.assertIn("assert_type(bias)", claims)
            self.assertIn("assert_type(bias), gradient", claims)

    def test_types_that_were_said_are_asked_for_and_followed(self):
        said = ('print("@", spmd.get_local_type(up), spmd.get_partition_spec(up), '
                'spmd.get_partition_spec(bias), spmd.is_type_checking())\n'
                'spmd.assert_type_like(up_next, up)\n'
                'spmd.assert_type(wide, {"dp": spmd.S(0), "tp": spmd.S(1)})\n'
                'spmd.rules.einsum("bk,kn->bn", wide, down, linear_in=(0, 1), out=terms)\n')
        sizes = (6, 6, 2, 2, 1)
        output = self.fine("run", "--full", text=scenario(RIGHT + said, *sizes))
        self.assertIn("@ {'dp': 'R', 'tp': 'V'} (None, 'tp') None False", output)
        # The contracted dim is cut, so that the rule gives terms, and these are added up already.
        exit_code, values = self.judged(RIGHT + said.replace("out=terms", "out=whole"), *sizes)
        wrong = [v["name"] for v in values if v.get("outcome") == "outcome.wrong"]
        self.assertEqual((exit_code, len(wrong)), (1, 1), wrong)
        self.assertIn("einsum", wrong[0])
        exit_code, values = self.judged(RIGHT + said.replace("like(up_next", "like(scale"), *sizes)
        self.assertEqual(exit_code, 1)
        for code, refusal in (
                ("spmd.assert_type_like(up, loss)", "source has no type"),
                ('spmd.rules.einsum("bk,nk->bn", wide, down, out=terms)', "cuts both k and n"),
                ('spmd.rules.einsum("bk,kn->bn", h, loss, out=terms)', "operand 1 has no type"),
        ):
            _, output, errors = self.shardlab("run", text=scenario(RIGHT + said + code + "\n",
                                                                   *sizes))
            self.assertIn(refusal, output + errors)

    def test_each_mistake_is_found_at_its_claim(self):
        for seed, (name, text, other, claim) in enumerate(MISTAKES):
            self.assertEqual(RIGHT.count(text), 1, name)
            for distractor in ("", "unused = up * 2 + 1\n"):
                code = RIGHT.replace(text, other).replace("h = x * scale\n",
                                                          distractor + "h = x * scale\n")
                exit_code, values = self.judged(code, *self.sizes(seed))
                wrong = [v for v in values if v.get("outcome") == "outcome.wrong"]
                lines = [number for number, line in enumerate(
                    scenario(code, *self.sizes(seed)).splitlines(), 1) if claim in line]
                found = [int(v["at"].split(":")[1]) for v in wrong if "(" in v["name"]]
                with self.subTest(name):
                    self.assertEqual(exit_code, 1)
                    self.assertTrue(set(found) & set(lines), (lines, [
                        (v["name"], v["at"]) for v in wrong]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
