#!/usr/bin/env python3
"""The tables of `shardlab ops`, as their users see them.

    ops_command_test.py PROGRAM
"""

import json
import pathlib
import re
import sys
import unittest

from program import Program

ROOT = pathlib.Path(__file__).resolve().parents[2]


def name_at(place):
    """The name that a row begins with at "src/ops/elementwise/elementary.cpp:398"."""
    path, _, line = place.rpartition(":")
    text = (ROOT / path).read_text(encoding="utf-8").splitlines()[int(line) - 1]
    row = re.match(r'\s*(?:\{|SHARDLAB_UPSAMPLING\(\w+, )"([\w:.]+)', text)
    return row[1] if row else text


class Sources(Program):
    def setUp(self):
        super().setUp()
        self.ops = {op["op"]: op for op in json.loads(self.fine("ops", "--json"))}

    def test_an_op_names_the_line_of_its_row(self):
        checked = 0
        for name, op in self.ops.items():
            if op["variant_of"] or op["why"].startswith("another name of "):
                continue
            if name == "shardlab::loss_parallel":  # is in no table
                self.assertRegex(op["source"], r"^src/ops/loss/loss_parallel\.cpp:\d+$")
                continue
            # A row of polynomials or resampling makes several ops of its name.
            row, name = name_at(op["source"]), name.removeprefix("aten::")
            self.assertTrue(name == row or name.startswith((row + ".", row + "_")), (op, row))
            checked += 1
        self.assertGreater(checked, 1000)

    def test_a_form_of_an_op_names_the_row_that_it_comes_from(self):
        forms = 0
        for name, op in self.ops.items():
            other = op["variant_of"]
            if not other and op["why"].startswith("another name of "):
                other = op["why"].removeprefix("another name of ")
                other = other if "::" in other else "aten::" + other
            if other:
                self.assertEqual(op["source"], self.ops[other]["source"], name)
                forms += 1
        self.assertGreater(forms, 1000)

    def test_a_part_of_names_lists_the_ops_that_have_it(self):
        named = [op["op"] for op in json.loads(self.fine("ops", "*layer_norm*", "--json"))]
        expected = [name for name in self.ops if "layer_norm" in name]
        self.assertEqual(named, expected)
        self.assertIn("aten::native_layer_norm", self.fine("ops", "*layer_norm*"))
        code, _, errors = self.shardlab("ops", "*nrom*")
        self.assertEqual((code, errors.splitlines()[0]), (2, "error: no op matches '*nrom*'"))

    def test_the_place_is_shown_to_people(self):
        for name in ("tan", "tan_", "tan.out", "_foreach_tan"):
            source = self.ops[f"aten::{name}"]["source"]
            self.assertIn(f"  source      {source}\n", self.fine("ops", name))


class Tables(Program):
    def test_every_op_is_of_one_family_and_written_or_derived(self):
        code, output, _ = self.shardlab("ops", "--families", "--json")
        self.assertEqual(code, 0)
        families = json.loads(output)
        _, output, _ = self.shardlab("ops", "--json")
        ops = json.loads(output)
        self.assertEqual(sum(family["overloads"] for family in families), len(ops))
        self.assertEqual(
            sum(family["derived"] for family in families), sum(op["variant_of"] != "" for op in ops)
        )
        for family in families:
            self.assertEqual(family["overloads"], family["written"] + family["derived"], family)
            self.assertLessEqual(family["decomposed"], family["overloads"], family)

    def test_a_family_has_the_lines_of_its_source(self):
        sources = self.folder / "src" / "ops"
        (sources / "shape").mkdir(parents=True)
        (sources / "register.cpp").write_text("\n", encoding="utf-8")
        (sources / "shape" / "windows.cpp").write_text("one\ntwo\n", encoding="utf-8")
        code, output, _ = self.shardlab("ops", "--families", "--json")
        self.assertEqual(code, 0)
        lines = {family["family"]: family["lines"] for family in json.loads(output)}
        self.assertEqual(lines["windows"], 2)
        self.assertIsNone(lines["view"])

    def test_overloads_without_a_case_are_listed_with_what_their_rule_rests_on(self):
        names = ["aten.mm.default", "aten.mm.out", "aten.relu.default", "aten.softmax.int", "my.op"]
        listed = {"ops": [{"op": name} for name in names]}
        (self.folder / "ops.json").write_text(json.dumps(listed), encoding="utf-8")
        case = json.dumps({"id": "aten.relu.default#1", "op": "aten.relu.default"})
        (self.folder / "pointwise.jsonl").write_text(case + "\n", encoding="utf-8")
        code, output, _ = self.shardlab("ops", "--unrecorded", str(self.folder), "--json")
        self.assertEqual(code, 0)
        self.assertEqual(
            json.loads(output),
            [
                {"op": "aten.mm.default", "rule": "own rule: mk,kn->mn", "sample": "its own"},
                {"op": "aten.mm.out", "rule": "derived from aten::mm", "sample": "aten::mm"},
                {"op": "aten.softmax.int", "rule": "decomposed: _softmax", "sample": "its own"},
                {"op": "my.op", "rule": "not registered", "sample": "none"},
            ],
        )
        code, output, _ = self.shardlab("ops", "--unrecorded", str(self.folder))
        self.assertEqual(code, 0)
        self.assertTrue(output.splitlines()[-1].startswith("4 overloads without a recorded case"))

    def test_a_folder_without_a_list_of_ops_is_refused(self):
        code, _, errors = self.shardlab("ops", "--unrecorded", str(self.folder))
        self.assertEqual(code, 2)
        self.assertIn("has no ops.json", errors)
        self.assertIn("fix", errors)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
