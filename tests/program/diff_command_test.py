#!/usr/bin/env python3
"""`shardlab diff` reports one planted difference, at its first place, and nothing else.

    diff_command_test.py PROGRAM

A run is written once as JSON; each test changes one thing in a copy of it, or runs a program that
differs in one line; the expected report is written by hand. Kinds of differences come in the order
of the report: outcome, decisions, collectives, values, times.
"""

import copy
import json
import sys
import unittest

from program import Program

SCENARIO = """title = "Rows and columns"
[mesh]
x = 2
[inputs]
a = {{ type = "f32[4@x, 6]", init = "arange" }}
b = {{ type = "f32[6, 4]", init = "ones" }}
[program]
code = \"\"\"
c = a @ b
d = {move}
print("sum", {printed})
e = {last}
\"\"\"
"""
USUAL = {"move": "c.redistribute(x=R)", "printed": 7, "last": "d + 1"}
THEMES = ["outcome", "decisions", "collectives", "values", "times"]


class DiffCommand(Program):
    def recorded(self, **changes):
        """The lines that `run --json` writes of the scenario, parsed."""
        text = SCENARIO.format(**{**USUAL, **changes})
        code, output, errors = self.shardlab("run", "--json", "--values", "all", text=text)
        self.assertIn((code, errors), [(0, ""), (1, "")])
        return [json.loads(line) for line in output.splitlines()]

    def setUp(self):
        super().setUp()
        (self.base,) = self.recorded()

    def write(self, name, runs):
        text = "".join(json.dumps(run) + "\n" for run in runs)
        (self.folder / name).write_text(text, encoding="utf-8")

    def diff(self, a, b, *options):
        """(exit code, output) of two lists of runs."""
        self.write("a.json", a)
        self.write("b.json", b)
        code, output, errors = self.shardlab("diff", *options, "a.json", "b.json")
        self.assertEqual(errors, "")
        return code, output

    def changed(self, change):
        run = copy.deepcopy(self.base)
        change(run)
        return run

    def differing(self, other):
        """The sections of the only run that have differences, and the first difference."""
        code, output = self.diff([self.base], [other], "--json")
        told = json.loads(output)
        (slot,) = told["runs"]
        self.assertEqual(sorted(slot["themes"]), sorted(THEMES))
        self.assertEqual(code, 0 if told["equal"] else 1)
        self.assertEqual(slot["equal"], told["equal"])
        sections = [name for name in THEMES if slot["themes"][name]["differences"]]
        self.assertEqual(told["equal"], sections == [])
        first = slot.get("first", {})
        return sections, first.get("about"), first.get("text"), slot

    def gate(self, gates, a, b):
        self.write("a.json", a)
        self.write("b.json", b)
        return self.shardlab("diff", "--gate", gates, "a.json", "b.json")

    def test_a_gate_holds_figures_alone(self):
        """One all_gather of 4 x 4 f32 over 2 ranks: half of 64 B is sent. Twice: 64 B."""
        (twice,) = self.recorded(last="(a @ b).redistribute(x=R) + d")
        for gates in ("bytes", "bytes=0", "bytes=+99%", "bytes=+31", "collectives"):
            code, output, _ = self.gate(gates, [self.base], [twice])
            self.assertEqual(code, 1, gates)
        for gates in ("bytes=+100%", "bytes=32", "bytes=+1KiB,collectives=+1,time=+150%"):
            code, output, errors = self.gate(gates, [self.base], [twice])
            self.assertEqual((code, errors), (0, ""), gates + output)
        self.assertEqual(self.gate("bytes,peak,collectives,time", [twice], [self.base])[0], 0)
        code, output, _ = self.gate("bytes=+5%", [self.base], [twice])
        self.assertEqual(output, """Rows and columns
  OVER  bytes        32 B -> 64 B, +100 %; allowed +5 %
        line 12  e = (a @ b).redistribute(x=R) + d  0 B -> 32 B
1 run, 1 over
""")

    def test_a_gate_names_runs_that_are_gone_or_failed_and_lets_new_ones_pass(self):
        new = self.changed(lambda run: run.update(title="new", file="new.toml"))
        self.assertEqual(self.gate("bytes", [self.base], [self.base, new])[0], 0)
        code, output, _ = self.gate("bytes", [self.base, new], [self.base])
        last = "0 over, 1 failed or gone"
        self.assertEqual((code, output.splitlines()[-2:]), (1, ["new: is gone", f"2 runs, {last}"]))
        failed = self.changed(lambda run: run.update(ok=False))
        wrong = self.changed(lambda run: run.update(
            ok=False, error={"kind": "Value", "text": "aten::mm: no\n  at  a.toml:3"}))
        unmet = self.changed(lambda run: run.update(
            ok=False, expectations=[{"what": "h", "text": "f32[2]", "met": True},
                                    {"what": "y", "text": "f32[3]", "met": False}]))
        for now, why in ((failed, ""), (wrong, ": aten::mm: no"), (unmet, ": expected y f32[3]")):
            code, output, _ = self.gate("bytes", [self.base], [now])
            self.assertEqual((code, output), (1, f"Rows and columns: failed{why}\n1 run, {last}\n"))
        code, output, _ = self.gate("bytes", [wrong], [self.base])
        self.assertEqual((code, output.splitlines()[0]),
                         (1, "Rows and columns: failed in the stored file: aten::mm: no"))

    def test_a_gate_knows_runs_by_file_and_point(self):
        def run(file, title, sent, point=""):
            def change(one):
                one.update(file=file, title=title, point=point)
                one["collectives"]["sent_bytes"] = sent
            return self.changed(change)

        # Two files with one title, two without any, two points of a matrix: each against itself.
        runs = [run("a.toml", "T", 10), run("b.toml", "T", 20), run("c.toml", "", 30),
                run("d.toml", "", 40), run("e.toml", "M", 50, "dp=2"),
                run("e.toml", "M", 60, "dp=4")]
        self.assertEqual(self.gate("bytes", runs, runs[::-1])[0], 0)
        for i, grown in enumerate(runs):
            more = copy.deepcopy(grown)
            more["collectives"]["sent_bytes"] += 1
            code, output, _ = self.gate("bytes", runs, runs[:i] + [more] + runs[i + 1:])
            self.assertEqual((code, output.count("OVER")), (1, 1), output)
        self.assertIn("c.toml\n", self.gate("bytes", runs, runs)[1])
        # A file that was moved is known by its title, if no other run has that.
        self.assertIn("1 run, 0 over", self.gate("bytes", [run("a.toml", "T", 10)],
                                                 [run("x/a.toml", "T", 10)])[1])
        code, output, _ = self.gate("bytes", runs[:2], [run("x/a.toml", "T", 10), runs[1]])
        self.assertEqual((code, output.count("is gone"), output.count("new")), (1, 1, 1), output)
        code, output, errors = self.gate("bytes", runs, [runs[0], runs[0]])
        self.assertEqual((code, output), (2, ""))
        self.assertIn("two runs are of a.toml", errors)

    def test_gates_that_cannot_be_read_are_refused(self):
        for gates in ("byte", "bytes=", "bytes=+5x", "bytes=-5%", "bytes,", "peak=5 %", "=5%"):
            code, output, errors = self.gate(gates, [self.base], [self.base])
            self.assertEqual((code, output), (2, ""), gates)
            self.assertRegex(errors, r"^error: --gate: .*\n  fix  ")
        code, _, errors = self.gate("bytes", [self.base], [{"events": [], "values": []}])
        self.assertEqual(code, 2)
        self.assertIn("run --json", errors)

    def event(self, kind):
        return next(i for i, event in enumerate(self.base["events"]) if kind in event)


class OnePlanted(DiffCommand):
    def test_the_same_twice_is_equal(self):
        code, output = self.diff([self.base], [self.base])
        self.assertEqual(code, 0)
        self.assertEqual(output.splitlines()[:4],
                         ["A  a.json", "B  b.json", "", "Rows and columns"])
        self.assertEqual(output.splitlines()[-1], "equal: 1 run")
        self.assertIn("  outcome      ok\n", output)
        self.assertIn("  collectives  1 compared, all equal\n", output)
        self.assertNotIn("first difference", output)

    def test_another_seed_backend_or_scheduler_is_setup_and_no_difference(self):
        for key, value in [("seed", 5), ("scheduler", "seeded"), ("backend", "mpi")]:
            with self.subTest(key):
                other = self.changed(lambda r: r.update({key: value}))
                sections, _, _, slot = self.differing(other)
                self.assertEqual(sections, [])
                self.assertEqual(slot["set"], [f"{key}: {self.base[key]} and {value}"])

    def test_a_failed_run_and_a_right_one(self):
        def fails(run):
            run["error"] = {"kind": "Value", "text": "no such row\n  at line 3"}
            run["ok"] = False
        sections, about, text, _ = self.differing(self.changed(fails))
        self.assertEqual((sections, about), (["outcome"], "outcome"))
        self.assertEqual(text, "A ends with ok\nB ends with Value error: no such row")

    def test_an_unmet_expectation(self):
        sections, _, text, _ = self.differing(self.changed(lambda r: r.update(ok=False)))
        self.assertEqual(sections, ["outcome"])
        self.assertEqual(text, "A ends with ok\nB ends with an expectation or a value that fails")

    def test_a_verdict(self):
        def deadlock(run):
            run.update(ok=False, verdict="deadlock")
        _, _, text, _ = self.differing(self.changed(deadlock))
        self.assertEqual(text, "A ends with ok\nB ends with verdict deadlock")

    def test_another_printed_line(self):
        def other(run):
            run["printed"][0].update(text="sum 8", by="rank 1")
        sections, about, text, _ = self.differing(self.changed(other))
        self.assertEqual((sections, about), (["outcome"], "printed line 1"))
        self.assertEqual(text, "A prints  sum 7\nB prints  rank 1: sum 8")

    def test_a_printed_line_more(self):
        def more(run):
            run["printed"].append({"by": "all", "line": 12, "text": "end"})
        _, about, text, _ = self.differing(self.changed(more))
        self.assertEqual((about, text), ("printed line 2", "A prints  nothing\nB prints  end"))

    def test_another_row_of_an_op(self):
        first = self.event("op")
        row = self.base["events"][first]["row"]
        def other(run):
            run["events"][first]["row"] = "(R, R) -> R"
        sections, about, text, slot = self.differing(self.changed(other))
        self.assertEqual((sections, about), (["decisions"], "decision 1"))
        given = "f32[4@x, 6], f32[6, 4]"
        self.assertEqual(text.splitlines(), [
            f"A, line 9, forward: aten::mm  {row}  of {given}",
            f"B, line 9, forward: aten::mm  (R, R) -> R  of {given}",
            "the same call on the same mesh: the rules or prices of the two builds differ",
        ])
        self.assertEqual(slot["themes"]["decisions"]["text"],
                         "none is equal, of 3 in A and 3 in B")

    def test_operands_that_lie_elsewhere(self):
        first = self.event("op")
        def other(run):
            run["events"][first]["given"][0] = "f32[4, 6@x]"
        _, _, text, _ = self.differing(self.changed(other))
        self.assertEqual(text.splitlines()[-1],
                         "its tensors had other types or placements already")

    def test_another_op(self):
        first = self.event("op")
        def other(run):
            run["events"][first]["op"] = "aten::matmul"
        _, _, text, _ = self.differing(self.changed(other))
        self.assertEqual(text.splitlines()[-1], "from here on the runs do not do the same")

    def test_another_plan_of_the_same_move(self):
        move = self.event("redistribute")
        def other(run):
            run["events"][move]["redistribute"]["plan"] = "S(0)->S(1), S(1)->R"
        sections, about, text, _ = self.differing(self.changed(other))
        self.assertEqual((sections, about), (["decisions"], "decision 2"))
        self.assertEqual(text.splitlines(), [
            "A, line 10, forward: redistribute f32[4@x, 4] to f32[4, 4] by S(0)->R",
            "B, line 10, forward: redistribute f32[4@x, 4] to f32[4, 4] by S(0)->S(1), S(1)->R",
            "the same move is planned by other steps",
        ])

    def test_a_decision_less(self):
        last = max(i for i, event in enumerate(self.base["events"]) if "op" in event)
        sections, about, text, _ = self.differing(self.changed(lambda r: r["events"].pop(last)))
        self.assertEqual((sections, about), (["decisions"], "decision 3"))
        self.assertEqual(text.splitlines()[0], "A continues where B has ended, at line 12, forward")

    def test_a_collective_of_another_kind_or_shape(self):
        place = self.event("collective")
        for key, value, words in [
            ("kind", "all_reduce", "all_reduce over x, 2 ranks, f32 of shape [2,4]"),
            ("input_shape", [4, 4], "all_gather over x, 2 ranks, f32 of shape [4,4]"),
            ("dtype", "f64", "all_gather over x, 2 ranks, f64 of shape [2,4]"),
        ]:
            with self.subTest(key):
                def other(run):
                    run["events"][place]["collective"][key] = value
                sections, about, text, _ = self.differing(self.changed(other))
                self.assertEqual((sections, about), (["collectives"], "collective 1"))
                self.assertEqual(text.splitlines(), [
                    "A, line 10, forward: all_gather over x, 2 ranks, f32 of shape [2,4]",
                    f"B, line 10, forward: {words}",
                ])

    def test_a_collective_less(self):
        place = self.event("collective")
        _, about, text, slot = self.differing(self.changed(lambda r: r["events"].pop(place)))
        self.assertEqual(about, "collective 1")
        self.assertEqual(text.splitlines()[1], "B, none")
        self.assertEqual(slot["themes"]["collectives"]["text"],
                         "none is equal, of 1 in A and 0 in B")

    def test_bytes_and_times(self):
        def other(run):
            run["collectives"]["sent_bytes"] *= 2
        sections, about, text, _ = self.differing(self.changed(other))
        self.assertEqual((sections, about), (["times"], "times"))
        # all_gather of f32[4, 4] on 2 ranks: half of its 64 bytes.
        self.assertIn(", 32 and 64 bytes sent per rank", text)

    def test_another_element(self):
        sections, about, text, _ = self.differing(self.changed_element(1.0))
        self.assertEqual((sections, about), (["values"], "value e"))
        # Row 1 of arange(24) as [4, 6] sums to 6 + ... + 11 = 51, and 1 is added. A run allows 16
        # roundings of 124, its largest element: both together 2 * 16 * 124 / 2**24.
        self.assertEqual(text, "t.toml:12:1\nelement [1, 1] is 52.0 in A and 53.0 in B: off by 1, "
                               "both envelopes together allow 0.000237")

    def test_an_element_within_what_both_allow(self):
        sections, _, _, slot = self.differing(self.changed_element(2 * 16 * 124 / 2**24))
        self.assertEqual(sections, [])
        self.assertEqual(slot["themes"]["values"]["text"], "2 bitwise, 1 within the envelope")
        sections, _, _, _ = self.differing(self.changed_element(2.1 * 16 * 124 / 2**24))
        self.assertEqual(sections, ["values"])

    def changed_element(self, by):
        def other(run):
            (value,) = [value for value in run["values"] if value["name"] == "e"]
            (whole,) = value["whole"]
            whole["elements"][5] += by
            whole["hash"] = "0" * 16
        return self.changed(other)

    def test_of_two_the_earlier_is_told_last_and_in_full(self):
        place = self.event("collective")
        def other(run):
            run["collectives"]["sent_bytes"] += 1
            run["events"][place]["collective"]["kind"] = "all_to_all"
        code, output = self.diff([self.base], [self.changed(other)])
        self.assertEqual(code, 1)
        below = output.partition("  first difference: collective 1\n")[2].splitlines()
        self.assertEqual(len(below), 4, output)
        self.assertTrue(below[0].startswith("    A, line 10, forward: all_gather"))
        self.assertEqual(below[3], "1 of 1 run differ")
        self.assertIn("    times\n", output)

    def test_more_runs_on_one_side(self):
        code, output = self.diff([self.base, self.base], [self.base])
        self.assertEqual(code, 1)
        self.assertTrue(output.endswith("\nall runs\n  outcome      not the same\n"
                                        "  first difference: runs\n    A has 2 runs, B has 1\n"
                                        "\n1 of 2 runs differ\n"), output)

    def test_what_is_no_output_is_refused_with_its_line(self):
        for text, says in [("{}\n", "b.json:1: this is not output of shardlab run --json"),
                           ("\n[1]\n", "b.json:2: this is not output of shardlab run --json"),
                           ("", "the file is empty"), ("\n\n", "b.json: the file has no runs")]:
            with self.subTest(text):
                self.write("a.json", [self.base])
                (self.folder / "b.json").write_text(text, encoding="utf-8")
                code, output, errors = self.shardlab("diff", "a.json", "b.json")
                self.assertEqual((code, output), (2, ""))
                self.assertIn(says, errors)
                self.assertIn("\n  fix ", errors)

    def test_a_run_without_its_keys_is_refused(self):
        broken = self.changed(lambda r: r.pop("mesh_dims"))
        self.write("a.json", [self.base])
        self.write("b.json", [broken])
        code, _, errors = self.shardlab("diff", "a.json", "b.json")
        self.assertEqual(code, 2)
        self.assertIn("a.json:1 and b.json:1: one is not output of shardlab run --json", errors)


class OtherPrograms(DiffCommand):
    def test_a_value_that_only_one_run_names(self):
        (other,) = self.recorded(last="d + 1\nf = e * 2")
        sections, about, _, _ = self.differing(other)
        self.assertEqual(sections, ["decisions", "values"])
        self.assertEqual(about, "decision 4")

    def test_a_move_that_is_not_made(self):
        (other,) = self.recorded(move="c.redistribute(x=S(1))")
        sections, about, text, _ = self.differing(other)
        self.assertEqual(sections[:2], ["decisions", "collectives"])
        self.assertEqual(about, "decision 2")
        self.assertEqual(text.splitlines()[-1], "what moves is not the same")

    def test_another_number_is_seen_in_the_value_and_what_follows_is_not_told_first(self):
        (other,) = self.recorded(last="d + 2")
        sections, about, text, _ = self.differing(other)
        self.assertEqual((sections, about), (["values"], "value e"))
        # Element [0, 0]: 0 + 1 + ... + 5 = 15, and 1 or 2 is added.
        self.assertIn("16", text)
        self.assertIn("17", text)

    def test_meshes_of_two_sizes_agree_but_for_sizes(self):
        text = SCENARIO.format(**USUAL)
        output = self.fine("run", "--json", "--values", "all", "--set", "mesh.x=4", text=text)
        code, told = self.diff([self.base], [json.loads(output)])
        self.assertEqual(code, 0, told)
        self.assertIn("  set          mesh: {x:2} and {x:4}\n  set          ranks: 2 and 4\n", told)
        self.assertIn("all equal but for sizes, which the meshes set", told)
        # all_gather of 64 bytes: 1/2 of them on 2 ranks, 3/4 on 4.
        self.assertIn(", 32 and 48 bytes sent per rank", told)

    def test_elements_that_no_run_has_are_not_equal(self):
        bare = [json.loads(self.fine("run", "--json", "--seed", seed,
                                     text=SCENARIO.format(**USUAL))) for seed in "12"]
        code, told = self.diff(bare[:1], bare[1:])
        self.assertEqual((code, told.splitlines()[-1]),
                         (0, "equal in what is compared: 1 run; not compared: values"))

    def test_meshes_of_other_names_compare_values_alone(self):
        text = SCENARIO.format(**{**USUAL, "move": "c.redistribute(y=R)"}).replace("@x", "@y")
        output = self.fine("run", "--json", "--values", "all", text=text.replace("x = 2", "y = 2"))
        code, told = self.diff([self.base], [json.loads(output)])
        self.assertEqual(code, 0, told)
        self.assertIn("not compared: the mesh dims have other names, {x:2} and {y:2}", told)
        self.assertEqual(told.splitlines()[-1],
                         "equal in what is compared: 1 run; not compared: decisions, collectives")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
