#!/usr/bin/env python3
"""`run --types`: calls are refused as spmd_types refuses them (V-41), before they compute.

    type_check_test.py PROGRAM SCENARIO

SCENARIO is a right program with types; each case is one edit of it. The answers are those of
spmd_types 0.3.1 for the same calls.
"""

import pathlib
import sys
import unittest

from program import Program

RIGHT = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8")
ENTRY = 'spmd.convert(h, "tp", src=spmd.I, dst=spmd.R)'
LOSS = "loss = y.pow(2).sum()\n"
MAPPED = ('@spmd.{}(out_types={{"dp": spmd.S(0), "tp": spmd.I}})\ndef f(v):\n    return {}\n'
          "z = f(wide @ down)\n" + LOSS)
# name, text, its replacement, mode, words of the refusal (none: it is accepted).
CASES = [
    ("right", "", "", "strict", []),
    ("right, but V is no loss", "", "", "local", ["loss V", "reinterpret(src=V, dst=P)"]),
    ("entry left out", ENTRY, "h", "strict", ["matmul", "along tp", "I", "convert(src=I, dst=R)"]),
    ("entry left out", ENTRY, "h", "local", ["matmul", "along tp", "I", "convert(src=I, dst=R)"]),
    ("terms through relu", "wide @ down", "torch.relu(wide @ down)", "strict",
     ["relu", "along tp", "self P", "all_reduce"]),
    ("summed twice", " + bias", "\ny = spmd.all_reduce(y, 'tp', src=spmd.P, dst=spmd.I) + bias",
     "strict", ["all_reduce", "told that the tensor is P", "I"]),
    ("other dim claimed", 'assert_type(h, {"dp": spmd.S(0)', 'assert_type(h, {"dp": spmd.S(1)',
     "strict", ["assert_type", "S(0)", "S(1)"]),
    ("mean of a cut dim", ".sum()", ".mean()", "strict", ["mean", "along dp"]),
    ("local mode in a part", LOSS, "with spmd.local():\n    m = y.mean(0)\n" + LOSS, "strict", []),
    ("terms through relu in local_map", LOSS, MAPPED.format("local_map", "torch.relu(v)"), "strict",
     ["relu", "along tp", "self P"]),
    ("local_map returns terms", LOSS, MAPPED.format("local_map", "v * 2"), "strict",
     ["the tensor is P, not I"]),
    ("the same unchecked: values see it", LOSS, MAPPED.format("no_typecheck", "torch.relu(v)"),
     "strict", ["cause.missing-sum", "--types strict accepts every call, and does not see this"]),
    ("less said than known", LOSS, 'spmd.assert_type(h, {"dp": spmd.V})\nspmd.assert_type(h, '
     '{"tp": spmd.I}, spmd.PartitionSpec("dp", None))\n' + LOSS, "strict", []),
    ("terms by a claim", LOSS,
     'v = y.detach().sum(0)\nspmd.assert_type(v, {"dp": spmd.R})\n' + LOSS, "strict",
     ["the tensor is P, not R"]),
    ("mutated from another type", LOSS,
     'u = up.detach()\nspmd.mutate_type(u, "dp", src=spmd.V, dst=spmd.R)\n' + LOSS, "strict",
     ["along dp the tensor is R, not V", "write src=spmd.R"]),
    ("R for I of what gets no gradient", LOSS,
     'k = spmd.reinterpret(x, "tp", src=spmd.R, dst=spmd.I, expert_mode=True)\n' + LOSS,
     "strict", []),
    ("R for I of what gets one", LOSS,
     'k = spmd.reinterpret(h, "tp", src=spmd.R, dst=spmd.I, expert_mode=True)\n' + LOSS, "strict",
     ["told that the tensor is R", "write src=I"]),
    ("I counts as R in an einsum", LOSS, 'm = bias0.to_local()\nspmd.assert_type(m, spmd.I)\n'
     'k = torch.einsum("ij,j->i", h, m)\n' + LOSS, "strict", []),
    ("V is written to a piece", LOSS, 'u = up.detach().clone()\n'
     'spmd.assert_type(u, {"dp": spmd.R, "tp": spmd.S(1)})\nu.mul_(u)\n' + LOSS, "local",
     ["loss V"]),
    ("mutated, and the others kept", LOSS,
     'u = bias.detach()\nspmd.mutate_type(u, "tp", src=spmd.I, dst=spmd.R)\n'
     'spmd.assert_type(u * 1, {"dp": spmd.R, "tp": spmd.R})\n' + LOSS, "strict", []),
    ("no type", "x * scale", "x * scale * torch.ones_like(bias0.to_local())", "strict",
     ["no type", "assert_type"]),
]


class TypeChecks(Program):
    def test_refused_as_the_package_does(self):
        for name, text, replacement, mode, words in CASES:
            with self.subTest(name=name, mode=mode):
                self.assertIn(text, RIGHT)
                program = RIGHT.replace(text, replacement, 1) if text else RIGHT
                code, output, errors = self.shardlab("run", "--types", mode, text=program)
                if not words:
                    self.assertEqual((code, errors), (0, ""), output)
                for word in words:
                    self.assertIn(word, output + errors)
                self.assertEqual(code == 0, not words, output + errors)

    def test_types_are_taken_over_to_another_view_of_the_ranks(self):
        text = ("[mesh]\ndp = 2\ncp = 2\ntp = 2\n[inputs]\nx0 = \"f32[8@(dp,cp), 4]\"\n"
                "y0 = \"f32[8@dp, 4]\"\n[program]\ncode = \"\"\"\nimport spmd_types as spmd\n"
                "x = x0.to_local()\ny = y0.to_local()\n"
                "spmd.assert_type(x, {'tp': spmd.R}, spmd.PartitionSpec(('dp', 'cp'), None))\n"
                "spmd.assert_type(y, {'dp': spmd.S(0), 'cp': spmd.R, 'tp': spmd.R})\n"
                "other = init_device_mesh('cpu', (4, 2), mesh_dim_names=('dp_cp', 'tp'))\n"
                "with spmd.set_current_mesh(other):\n"
                "    print('@', spmd.get_local_type(x), spmd.get_partition_spec(x))\n"
                "    z = spmd.all_gather({}, 'dp_cp', src=spmd.S(0), dst=spmd.R)\n\"\"\"\n")
        _, output, errors = self.shardlab("run", "--types", "strict", "--full",
                                          text=text.replace("{}", "x"))
        self.assertIn("@ {'dp_cp': 'V', 'tp': 'R'} ('dp_cp', None)", output + errors)
        self.assertNotIn("has none along", output + errors)
        _, output, errors = self.shardlab("run", "--types", "strict", text=text.replace("{}", "y"))
        self.assertIn("dp S(0)  cp R  tp R", output + errors)
        self.assertIn("has none along mesh", output + errors)

    def test_off_checks_nothing(self):
        program = RIGHT.replace("wide @ down", "torch.relu(wide @ down)", 1)
        for options in [("--types", "off"), ()]:
            _, output, errors = self.shardlab("run", *options, text=program)
            self.assertNotIn("self P", output + errors)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
