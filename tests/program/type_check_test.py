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


# Two dims of two ranks: statements, and what is printed of y or words of the refusal. x is the
# whole, a its rows by tp; neither has a type before.
CUT = "spmd.assert_type(a, {'dp': spmd.R, 'tp': spmd.S(0)})\n"
BOTH = "spmd.assert_type(a, {}, spmd.PartitionSpec(('dp', 'tp'), None))\n"
WHOLE = "spmd.assert_type(x, {'dp': spmd.R, 'tp': spmd.R})\n"
TERMS = "spmd.assert_type(x, {'dp': spmd.P, 'tp': spmd.P})\n"
FURTHER = "tp cuts these pieces further"
ON_TWO_DIMS = [
    (CUT + "y = spmd.convert(a, 'dp', src=spmd.R, dst=spmd.S(0))", "(('tp', 'dp'), None)"),
    (CUT + "y = spmd.convert(a, 'dp', src=spmd.R, dst=spmd.S(1))", "('tp', 'dp')"),
    (CUT + "y = spmd.convert(a, 'dp', src=spmd.R, dst=spmd.S(-1))", "('tp', 'dp')"),
    (CUT + "y = spmd.convert(a, 'dp', src=spmd.R, dst=spmd.S(0))\n"
     "y = spmd.all_gather(y, 'dp', src=spmd.S(0), dst=spmd.R)", "('tp', None)"),
    (CUT + "y = spmd.convert(a, 'dp', src=spmd.R, dst=spmd.S(0))\n"
     "y = spmd.all_gather(y, 'tp', src=spmd.S(0), dst=spmd.R)", "dp cuts these pieces further"),
    (WHOLE + "y = spmd.convert(x, 'tp', src=spmd.R, dst=spmd.S(0))\n"
     "y = spmd.convert(y, 'dp', src=spmd.R, dst=spmd.S(1))\n"
     "y = spmd.all_to_all(y, 'tp', src=spmd.S(0), dst=spmd.S(1))", "(None, ('dp', 'tp'))"),
    (BOTH + "y = spmd.all_gather(a, 'tp', src=spmd.S(0), dst=spmd.R)", "('dp', None)"),
    (BOTH + "y = spmd.all_gather(a, 'dp', src=spmd.S(0), dst=spmd.R)", FURTHER),
    (BOTH + "y = spmd.redistribute(a, 'dp', src=spmd.S(0), dst=spmd.S(1))", FURTHER),
    (BOTH + "y = spmd.reinterpret(a, 'dp', src=spmd.V, dst=spmd.P)", FURTHER),
    (CUT + "y = a + torch.arange(3)", "('tp', None)"),
    (TERMS + "y = x * torch.tensor(2.)", "{'dp': 'P', 'tp': 'P'}"),
    (TERMS + "y = x + torch.tensor(2.)", "P"),
    (TERMS + "y = x.new_ones(4)", "{'dp': 'R', 'tp': 'R'}"),
    (TERMS + "y = torch.ones_like(x)", "terms of a sum do not pass"),
    ("y = torch.zeros(4) + rank", "{'dp': 'R', 'tp': 'R'}"),
    ("y = torch.eye(4)\nspmd.assert_type(y, {'tp': spmd.S(0)})", "the tensor is R, not S(0)"),
    (WHOLE + "y = x + torch.rand(3)", "no type"),
    (WHOLE + "with spmd.no_typecheck():\n    z = torch.relu(x)\ny = z * 2", "no type"),
    (WHOLE + "with spmd.no_typecheck():\n    y = torch.relu(x)\n"
     "spmd.assert_type(y, {'dp': spmd.R, 'tp': spmd.R})", "{'dp': 'R', 'tp': 'R'}"),
    (TERMS + "y = x * 1\ndist.all_reduce(y)", "is that of no dim of mesh"),
    ("g = mesh.get_group('tp')\nspmd.assert_type(a, {'dp': spmd.R, g: spmd.S(0)})\ny = a * 2",
     "('tp', None)"),
    ("y = (x0 * torch.tensor(2.)).to_local()", "{} None"),  # a DTensor's calls are not checked
]


class TypeChecks(Program):
    def test_on_two_dims_as_the_package_does(self):
        for body, words in ON_TWO_DIMS:
            with self.subTest(body):
                text = ("[mesh]\ndp = 2\ntp = 2\n[inputs]\nx0 = \"f32[4, 3]\"\n"
                        "a0 = \"f32[4@tp, 3]\"\n[program]\ncode = \"\"\"\n"
                        "import spmd_types as spmd\nx = x0.to_local()\na = a0.to_local()\n"
                        f"{body}\nprint('@', spmd.get_local_type(y), spmd.get_partition_spec(y))\n"
                        "\"\"\"\n")
                _, output, errors = self.shardlab("run", "--types", "strict", "--full", text=text)
                printed = " ".join(line for line in output.splitlines() if "@ {" in line)
                self.assertIn(words, printed if words[0] in "({" else output + errors)
                self.assertEqual(bool(printed), words[0] in "({", output + errors)

    def test_a_new_dim_moves_the_cuts_behind_it(self):
        """V is stacked on a new dim 0; S(1) is then that of dim 2, and dim 0's of a row is gone."""
        for cut, dst, spec in ((1, "R", "(None, None, 'tp')"), (1, "V", "('tp',)"),
                               (0, "V", "None")):
            call = ("all_gather(a, 'dp', src=spmd.V, dst=spmd.R)" if dst == "R" else
                    "reduce_scatter(a, 'dp', src=spmd.P, dst=spmd.V)")
            own = "S(0)" if dst == "R" and cut else "S(1)" if dst == "R" else "P"
            with self.subTest(cut=cut, dst=dst):
                text = ("[mesh]\ndp = 2\ntp = 2\n[inputs]\n[program]\ncode = \"\"\"\n"
                        "import spmd_types as spmd\nwith spmd.no_typecheck():\n"
                        "    a = torch.ones(2, 3)\n"
                        f"spmd.assert_type(a, {{'dp': spmd.{own}, 'tp': spmd.S({cut})}})\n"
                        f"y = spmd.{call}\n"
                        "print('@', spmd.get_local_type(y), spmd.get_partition_spec(y))\n\"\"\"\n")
                _, output, errors = self.shardlab("run", "--types", "strict", "--full", text=text)
                self.assertIn(f"}} {spec}\n", output, errors)

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
