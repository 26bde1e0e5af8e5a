#!/usr/bin/env python3
"""The tables of `shardlab ops`, as their users see them.

    ops_command_test.py PROGRAM
"""

import json
import sys
import unittest

from program import Program


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
        sources.mkdir(parents=True)
        (sources / "register.cpp").write_text("\n", encoding="utf-8")
        (sources / "windows.cpp").write_text("one\ntwo\n", encoding="utf-8")
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
