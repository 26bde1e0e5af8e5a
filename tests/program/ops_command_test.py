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
    """The name of the row at "src/ops/elementwise/elementary.cpp:398": "abs"_op, or the first."""
    path, _, line = place.rpartition(":")
    text = (ROOT / path).read_text(encoding="utf-8").splitlines()[int(line) - 1]
    row = re.search(r'"([\w:.]+)"_op', text) or re.match(r'\s*(?:\{|\w+[(<])"([\w:.]+)', text)
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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
