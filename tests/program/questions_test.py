#!/usr/bin/env python3
"""`shardlab show`, `plan`, `explain` and `ops` answer right, and alike in text and JSON.

    questions_test.py PROGRAM

The pieces of ranks are worked out here in another way, by cutting lists of indices; answers of
`plan` and `explain` are compared with each other, and with a run that makes the same move or call.
"""

import json
import math
import random
import sys
import unittest

from program import Program

SIZES = {"f64": 8, "f32": 4, "bf16": 2, "i8": 1, "c64": 8}


class Drawn:
    """A mesh and a type on it: each mesh dim cuts one tensor dim, holds replicas or terms."""

    def __init__(self, seed, sums=True, fewest=1):
        draw = random.Random(seed)
        names = ["x", "y", "z"][: draw.randint(1, 3)]
        self.mesh = {name: draw.randint(fewest, 4) for name in names}
        self.dtype = draw.choice(["f64", "f32", "bf16"])
        self.shape = [draw.choice([0, 1, 2, 3, 5, 8, 13]) for _ in range(draw.randint(1, 3))]
        self.place(draw, sums)

    def place(self, draw, sums=True):
        self.cuts = [[] for _ in self.shape]
        self.terms = []
        for name in draw.sample(sorted(self.mesh), len(self.mesh)):
            kind = draw.choice(["cut", "cut", "whole", "terms" if sums else "whole"])
            if kind == "cut":
                draw.choice(self.cuts).append(name)
            elif kind == "terms":
                self.terms.append(name)

    @property
    def mesh_text(self):
        return ",".join(f"{name}={size}" for name, size in self.mesh.items())

    @property
    def text(self):
        dims = [str(size) + (f"@({','.join(cut)})" if cut else "")
                for size, cut in zip(self.shape, self.cuts)]
        terms = f"{{sum:({','.join(self.terms)})}}" if self.terms else ""
        return f"{self.dtype}[{', '.join(dims)}]{terms}"

    def coordinates(self):
        places = [{}]
        for name, size in self.mesh.items():
            places = [{**place, name: i} for place in places for i in range(size)]
        return places

    def indices(self, coordinate):
        """For each tensor dim, the indices that the rank there holds."""
        held = []
        for size, cut in zip(self.shape, self.cuts):
            mine = list(range(size))
            for name in cut:
                chunk = math.ceil(len(mine) / self.mesh[name])
                at = coordinate[name]
                mine = mine[at * chunk : (at + 1) * chunk]
            held.append(mine)
        return held


class Show(Program):
    def ask(self, drawn):
        return json.loads(self.fine("show", drawn.text, "--mesh", drawn.mesh_text, "--json"))

    def test_pieces_are_those_that_cutting_lists_gives(self):
        for seed in range(60):
            drawn = Drawn(seed)
            with self.subTest(drawn.text, mesh=drawn.mesh_text):
                told = self.ask(drawn)
                self.assertEqual(told["shape"], drawn.shape)
                elements = []
                for rank, coordinate in enumerate(drawn.coordinates()):
                    held = drawn.indices(coordinate)
                    row = told["ranks"][rank]
                    self.assertEqual(row["rank"], rank)
                    self.assertEqual(row["coordinate"], list(coordinate.values()))
                    self.assertEqual(row["local_shape"], [len(dim) for dim in held])
                    for dim, offset, size in zip(held, row["offset"], drawn.shape):
                        self.assertEqual(offset, dim[0] if dim else size)
                    elements.append(math.prod(len(dim) for dim in held))
                    self.assertEqual(row["elements"], elements[-1])
                    self.assertEqual(row["bytes"], elements[-1] * SIZES[drawn.dtype])
                self.assertEqual(told["elements"], math.prod(drawn.shape))
                self.assertEqual(told["elements_on_all_ranks"], sum(elements))
                self.assertEqual((told["largest_piece"], told["smallest_piece"]),
                                 (max(elements), min(elements)))
                self.assertEqual(told["empty_ranks"], elements.count(0))
                counted = {}
                for row in told["ranks"]:
                    shape = tuple(row["local_shape"])
                    counted[shape] = counted.get(shape, 0) + 1
                shapes = {tuple(row["local_shape"]): row["ranks"] for row in told["local_shapes"]}
                self.assertEqual(shapes, counted)

    def test_what_is_cut_alone_is_held_once(self):
        for seed in range(100, 130):
            drawn = Drawn(seed, sums=False)
            copies = math.prod(size for name, size in drawn.mesh.items()
                               if not any(name in cut for cut in drawn.cuts))
            with self.subTest(drawn.text, mesh=drawn.mesh_text):
                self.assertEqual(self.ask(drawn)["elements_on_all_ranks"],
                                 copies * math.prod(drawn.shape))

    def test_the_table_has_a_row_for_each_rank(self):
        for seed in range(200, 215):
            drawn = Drawn(seed)
            with self.subTest(drawn.text, mesh=drawn.mesh_text):
                told = self.ask(drawn)
                output = self.fine("show", drawn.text, "--mesh", drawn.mesh_text)
                table = output.partition("\n  rank  at")[2].splitlines()[1:]
                for row, line in zip(told["ranks"], table):
                    if "ranks left out" in line:
                        break
                    at = " ".join(f"{n}={i}" for n, i in zip(drawn.mesh, row["coordinate"]))
                    self.assertTrue(line.split()[0] == str(row["rank"]) and at in line, line)
                    self.assertIn(str(row["local_shape"]), line)
                    self.assertIn(str(row["offset"]), line)
                    empty = row["elements"] == 0 and told["elements"] > 0
                    self.assertEqual("empty" in line, empty, line)

    def test_a_strided_shard_interleaves(self):
        told = json.loads(self.fine("show", "f32[8@x~2]", "--mesh", "x=2", "--json"))
        # Two blocks of four, each cut in two: 0 1 | 2 3 and 4 5 | 6 7.
        self.assertEqual([row["runs"] for row in told["ranks"]],
                         [[[[0, 2], [4, 2]]], [[[2, 2], [6, 2]]]])


class Plan(Program):
    def ask(self, source, target, *options):
        return json.loads(self.fine("plan", source.text, target.text, "--mesh", source.mesh_text,
                                    "--json", *options))

    def pairs(self, seeds):
        for seed in seeds:
            source, target = Drawn(seed, fewest=2), Drawn(seed, fewest=2)
            target.place(random.Random(seed + 1000), sums=False)
            yield source, target

    def test_sums_chains_and_bounds(self):
        for source, target in self.pairs(range(40)):
            with self.subTest(source.text, to=target.text, mesh=source.mesh_text):
                told = self.ask(source, target)
                self.assertEqual(sorted(told["planners"]), ["bytes", "graph", "greedy"])
                planners = {name: planner for name, planner in told["planners"].items()
                            if "no_plan" not in planner}
                reordered = any(cut != sorted(cut) for drawn in (source, target)
                                for cut in drawn.cuts)
                self.assertEqual(sorted(planners),
                                 ["bytes", "graph"] + ["greedy"] * (not reordered))
                for planner in planners.values():
                    steps = planner["steps"]
                    for name in ("received_bytes", "predicted_us"):
                        total = sum(step[name] for step in steps)
                        self.assertAlmostEqual(planner[name], total, places=6)
                    if steps:
                        self.assertEqual(steps[-1]["gives"], told["target"])
                    else:
                        self.assertEqual(told["source"], told["target"])
                    self.assertEqual(planner["over_bound_bytes"],
                                     planner["received_bytes"] - told["bound_bytes"])
                    self.assertGreaterEqual(planner["over_bound_bytes"], 0)
                    for step in steps:
                        if not step["communicates"]:
                            self.assertEqual((step["received_bytes"], step["predicted_us"]), (0, 0))
                ours = planners["bytes"]
                if ours["optimal"]:
                    self.assertEqual(ours["received_bytes"],
                                     min(p["received_bytes"] for p in planners.values()))

    def test_a_run_makes_the_steps_of_the_plan(self):
        for source, target in self.pairs(range(50, 62)):
            if 0 in source.shape:
                continue
            told = self.ask(source, target)
            mesh = "\n".join(f"{name} = {size}" for name, size in source.mesh.items())
            for planner, plan in told["planners"].items():
                if "no_plan" in plan:
                    continue
                with self.subTest(source.text, to=target.text, mesh=source.mesh_text, by=planner):
                    placing = target.text.removeprefix(target.dtype)
                    text = (f'[mesh]\n{mesh}\n[inputs]\na = "{source.text}"\n[program]\n'
                            f'code = \'\'\'\nb = a.redistribute("{placing}", planner="{planner}")\n'
                            f"'''\n")
                    run = json.loads(self.fine("run", "--json", text=text))
                    made = [e["collective"]["kind"] for e in run["events"] if "collective" in e]
                    planned = [step["kind"] for step in plan["steps"] if step["communicates"]
                               and any(source.mesh[dim] > 1 for dim in step["mesh_dims"])]
                    self.assertEqual(made, planned)
                    moves = [e["redistribute"]["plan"] for e in run["events"]
                             if "redistribute" in e]
                    self.assertEqual(moves or [plan["text"]], [plan["text"]])

    def test_the_text_has_the_numbers_of_json(self):
        for source, target in self.pairs(range(80, 92)):
            with self.subTest(source.text, to=target.text, mesh=source.mesh_text):
                told = self.ask(source, target)
                output = self.fine("plan", source.text, target.text, "--mesh", source.mesh_text)
                self.assertTrue(output.startswith(
                    f"{told['source']} -> {told['target']}  on {{"), output)
                for name, planner in told["planners"].items():
                    if "no_plan" in planner:
                        self.assertIn(f"no plan: {planner['no_plan']}", output)
                        continue
                    (row,) = [line for line in output.splitlines()
                              if line.startswith(f"  {name} ")]
                    count = row.split()[2 if planner.get("optimal") or "unproven" in row else 1]
                    self.assertEqual(int(count), len(planner["steps"]), row)

    def test_a_link_that_is_twice_as_fast_halves_what_its_bytes_take(self):
        call = ("plan", "f32[1048576@x, 64]", "f32[1048576, 64]", "--mesh", "x=4", "--json")
        times = [json.loads(self.fine(*call, "--link", f"x={gbps},1"))["predicted_us"]
                 for gbps in (10, 20, 40)]
        # 3/4 of 256 MiB at 10 * 2**30 bytes a second: 18,750 us.
        self.assertAlmostEqual(times[0] - times[1], 9375, delta=1)
        self.assertAlmostEqual(times[1] - times[2], 4687.5, delta=1)


CALLS = [
    ("mm", ["f32[8@x, 16]", "f32[16, 4@x]"], "a @ b"),
    ("mm", ["f32[8, 16@x]", "f32[16@x, 4]"], "a @ b"),
    ("mm", ["f32[7@x, 5]", "f32[5, 3]"], "a @ b"),
    ("add.Tensor", ["f32[8@x, 6]", "f32[8, 6@x]"], "a + b"),
    ("add.Tensor", ["f32[8, 6]{sum:x}", "f32[8, 6]"], "a + b"),
    ("mul.Tensor", ["f32[8@x, 6]", "f32[6]"], "a * b"),
    ("bmm", ["f32[4@x, 3, 5]", "f32[4, 5@x, 2]"], "bmm(a, b)"),
    ("maximum", ["f32[5@x]", "f32[5]{max:x}"], "maximum(a, b)"),
    ("mv", ["f32[8@x, 6]", "f32[6@x]"], "mv(a, b)"),
]


class Explain(Program):
    def test_the_cheapest_candidate_is_chosen_and_a_run_does_the_same(self):
        for op, types, expression in CALLS:
            for ranks in (2, 4):
                with self.subTest(op, types=types, ranks=ranks):
                    told = json.loads(self.fine("explain", op, *types, "--mesh", f"x={ranks}",
                                                "--json"))
                    self.assertEqual(told["given"], types)
                    costs = [c["cost_us"] for c in told["candidates"]]
                    (chosen,) = [c for c in told["candidates"] if c["selected"]]
                    self.assertEqual(chosen["cost_us"],
                                     min(cost for cost in costs if cost != "inf"))
                    text = (f'[mesh]\nx = {ranks}\n[inputs]\na = "{types[0]}"\nb = "{types[1]}"\n'
                            f'[program]\ncode = """\ny = {expression}\n"""\n')
                    run = json.loads(self.fine("run", "--json", text=text))
                    (event,) = [e for e in run["events"] if "op" in e and e["op"] == told["op"]]
                    self.assertEqual((event["inputs"], event["outputs"]),
                                     (told["inputs"], told["outputs"]))

    def test_the_text_marks_what_json_selects(self):
        for op, types, _ in CALLS:
            with self.subTest(op, types=types):
                told = json.loads(self.fine("explain", op, *types, "--mesh", "x=4", "--json"))
                output = self.fine("explain", op, *types, "--mesh", "x=4")
                (marked,) = [line for line in output.splitlines() if line.startswith("  * ")]
                (chosen,) = [c for c in told["candidates"] if c["selected"]]
                self.assertIn(f" {chosen['text']} ", marked + " ")
                self.assertIn(f"-> {told['outputs'][0]}", output.splitlines()[0])
                for before, after in zip(types, told["inputs"]):
                    if before != after:
                        self.assertIn(f"{before} => {after}", output)


class Lists(Program):
    def test_a_list_of_placements_shows_what_the_type_string_shows(self):
        mesh = ("--mesh", "dp=2,tp=2")
        for listed, type_string in (
                ("[Shard(0), Replicate()]", "f32[8@dp, 8]"),
                ("[Partial(), Shard(dim=2)]", "f32[8, 8, 8@tp]{sum:dp}"),
                ("bf16[7, 4] [Replicate(), Shard(-1)]", "bf16[7, 4@tp]"),
                ("[S(0), Partial('max')]", "f32[8@dp, 8]{max:tp}"),
                ("f32[7] [Shard(0), Shard(0)]", "f32[7@(dp,tp)]")):
            with self.subTest(listed):
                self.assertEqual(self.fine("show", listed, *mesh),
                                 self.fine("show", type_string, *mesh))
        self.assertEqual(
            self.fine("plan", "[Shard(0), Replicate()]", "[Replicate(), Replicate()]", *mesh),
            self.fine("plan", "f32[8@dp, 8]", "f32[8, 8]", *mesh))
        strided = "f32[8] [_StridedShard(0, split_factor=2), Shard(0)]"
        self.assertIn(" SS(0,2)S(0)\n", self.fine("show", strided, *mesh))
        for listed, problem in (
                ("[Shard(0)]", "has 1 placements, and mesh {dp:2, tp:2} has 2 dims"),
                ("[Shard(0), Repl()]", "write Shard(0), Replicate() or Partial()")):
            code, output, errors = self.shardlab("show", listed, *mesh)
            self.assertEqual((code, output), (2, ""))
            self.assertIn(problem, errors)


class Ops(Program):
    def test_an_op_alone_is_told_as_in_the_list_of_all(self):
        listed = {row["op"]: row for row in json.loads(self.fine("ops", "--json"))}
        self.assertGreater(len(listed), 1000)
        for row in listed.values():
            self.assertTrue(row["schema"].startswith(row["op"] + "("), row)
            if row["variant_of"]:
                self.assertIn(row["variant_of"], listed)
        for name in ("mm", "sum.dim_IntList", "gelu", "cat", "topk"):
            for row in json.loads(self.fine("ops", name, "--json")):
                self.assertEqual(row, listed[row["op"]])

    def test_the_text_of_an_op_has_its_schema_rule_and_reason(self):
        for name in ("mv", "gelu", "cat", "sum.dim_IntList"):
            with self.subTest(name):
                row = json.loads(self.fine("ops", name, "--json"))[0]
                output = self.fine("ops", name)
                self.assertTrue(output.startswith(row["schema"] + "\n"), output)
                self.assertIn(f"  why         {row['why']}\n", output)
                self.assertIn(f"  gradient    {'yes' if row['gradient'] else 'no'}\n", output)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
