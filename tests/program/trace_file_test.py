#!/usr/bin/env python3
"""A graph's file at the command line: written, compared, run, checked against a scenario.

    trace_file_test.py PROGRAM
"""

import json
import sys
import unittest

import program

SCENARIO = """
title = "two steps"
[mesh]
dp = 2
tp = 2
[inputs]
x = "f32[7@dp, 6]"
w = { type = "f32[6, 5@tp]", requires_grad = true, scale = 0.5 }
none = "f32[0@dp, 3]"
[program]
code = '''
y = (x @ w).redistribute(tp=R)
y.sum().backward()
e = none.sum(0)
'''
"""


NOT_A_NUMBER = """
[mesh]
x = 2
[inputs]
a = { type = "f32[4@x]", values = [1.0, nan, 3.0, 4.0] }
[program]
code = '''
b = a.masked_fill(a > 2, float("nan"))
'''
"""


FILLED = """
[mesh]
dp = 2
tp = 2
[inputs]
x = "f32[4]"
[program]
code = '''
g = dist.new_group([3, 1, 0, 2])
own = x.to_local() * 2
outs = [torch.zeros(4) for i in range(2)]
a = dist.all_reduce(own, op=dist.ReduceOp.MAX, group=g, async_op=True)
b = dist.all_gather(outs, x.to_local(), group="tp", async_op=True)
b.wait()
a.wait()
z = torch.empty(4)
dist.all_to_all_single(z, outs[1], group="tp")
dist.reduce_scatter_tensor(z[:2], own, group="dp")
dist.broadcast(z, src=0)
y = from_local(own + outs[0] + z, mesh=mesh)
'''
[expect]
verify = "none"
"""

BRANCH = """
[mesh]
x = 2
[inputs]
a = "f32[4@x, 3]"
[program]
code = '''
s = a.sum()
if s.item() > 0:
    b = a * 2
else:
    b = a + 3
c = b + 1
'''
"""


class GraphFiles(program.Program):
    def text_of(self, scenario, name):
        self.fine("trace", scenario, "--out", name)
        return (self.folder / name).read_text(encoding="utf-8")

    def test_ranks_that_hold_a_nan_have_one_graph(self):
        report = self.fine("trace", text=NOT_A_NUMBER)
        self.assertIn("same on 2 ranks, replay bitwise", report)

    def test_a_line_is_a_node_and_runs_in_place_of_the_program(self):
        self.plant(own=SCENARIO)
        nodes = {node["out"][0]["v"]: node
                 for node in map(json.loads, self.text_of("own.toml", "own.graph").splitlines())
                 if node.get("out")}
        self.assertEqual(nodes[1]["recipe"], {"init": "randn", "scale": 0.5})
        self.assertEqual(nodes[1]["out"][0]["placements"], ["R", "S(1)"])
        self.assertEqual(nodes[2]["out"][0]["shape"], [0, 3])
        self.assertEqual(nodes[4]["at"], [12, 13])
        self.assertEqual(nodes[4]["comm"], [{"c": "all_gather", "group": "tp", "ranks": [0, 1],
                                             "dtype": "f32", "shape": [4, 3]}])
        of_rank = self.fine("trace", "own.toml", "--rank", "3")
        self.assertIn("all_gather over tp f32[3, 2] ranks 2,3\n", of_rank)
        self.assertIn("bitwise", self.fine("replay", "own.graph"))
        self.assertIn("guards hold", self.fine("trace", "--check", "own.graph", "own.toml"))

    def test_collectives_that_fill_tensors_and_their_waits_run_again(self):
        self.plant(own=FILLED)
        text = self.text_of("own.toml", "own.graph")
        self.assertIn('"in_place":true,"work":0', text)
        self.assertIn('{"k":"wait","work":1', text)
        self.assertIn("bitwise", self.fine("replay", "own.graph"))
        again = self.fine("trace", "own.toml", "--toml")
        self.assertIn(' = dist.all_gather([', again)
        self.assertIn("group_src=0", again)
        self.plant(again=again)
        values = [json.loads(self.shardlab("run", "--json", "--values", "all", name)[1])["values"]
                  for name in ("own.toml", "again.toml")]
        first, second = ([value["whole"] for value in run if "whole" in value] for run in values)
        self.assertEqual(first[-1], second[-1])

    def test_a_scenario_expects_it_and_its_difference_is_the_line_that_changed(self):
        self.plant(own=SCENARIO)
        text = self.text_of("own.toml", "own.graph")
        expecting = SCENARIO + '[expect]\ngraph = "own.graph"\n'
        self.plant(own=expecting)
        self.fine("run", "own.toml")
        changed = expecting.replace("none.sum(0)", "none.amax(1)")
        self.plant(own=changed)
        code, output, _ = self.shardlab("run", "own.toml")
        self.assertEqual(code, 1)
        self.assertIn("aten::sum", output)
        self.assertIn("aten::amax", output)
        old, new = text.splitlines()[1:], self.text_of("own.toml", "new.graph").splitlines()[1:]
        apart = [(a, b) for a, b in zip(old, new)
                 if {**json.loads(a), "at": 0} != {**json.loads(b), "at": 0}]
        self.assertEqual(len(apart), 1, apart)
        self.assertEqual(len(old), len(new))

    def test_a_check_follows_what_was_read(self):
        self.plant(branch=BRANCH)
        self.text_of("branch.toml", "branch.graph")
        check = ["trace", "--check", "branch.graph", "branch.toml"]
        self.assertIn("guards hold, 1 break leads the same way\n", self.fine(*check))
        replay = ["replay", "branch.graph", "--seed"]
        self.assertIn("bitwise", self.fine(*replay, "0"))
        ways = {}
        for seed in range(1, 9):
            answer = self.shardlab(*check, "--seed", str(seed))
            ways[answer[0]] = answer, self.shardlab(*replay, str(seed))
        self.assertEqual(sorted(ways), [0, 1])
        self.assertIn("leads the same way", ways[0][0][1])
        output, errors = ways[1][0][1:]
        self.assertNotIn("ok  ", output)
        self.assertRegex(errors, r"captured +%\d+: .*mul(?s:.*)now +%\d+: .*add")
        self.assertIn("  rests on    data-dependent value: %3 is read in line 9\n", errors)
        for _, (_, output, errors) in ways.values():
            self.assertNotIn("bitwise", output + errors)

    def test_nodes_and_ranks_that_are_not_there_are_refused(self):
        self.plant(t=SCENARIO)
        self.fine("trace", "t.toml", "--out", "t.graph")
        for option, number in [("--until", "99999"), ("--rank", "99")]:
            code, output, errors = self.shardlab("replay", "t.graph", option, number)
            self.assertEqual((code, output), (2, ""))
            self.assertIn(f"error: {option} {number}: the graph of t.toml ", errors)

    def test_a_damaged_file_is_named_with_the_line_and_the_field(self):
        self.plant(own=SCENARIO)
        text = self.text_of("own.toml", "own.graph")
        right = '"to":{"shape":[7,5],"dtype":"f32"'
        self.assertIn(right, text)
        wrong = text.replace(right, right.replace("f32", "f33"))
        (self.folder / "bad.graph").write_text(wrong, encoding="utf-8")
        for command in (["replay", "bad.graph"], ["trace", "--check", "bad.graph", "own.toml"]):
            code, _, errors = self.shardlab(*command)
            self.assertEqual(code, 2)
            self.assertRegex(errors, r"bad.graph: line \d+ of the graph: 'to.dtype' is not a dtype")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
