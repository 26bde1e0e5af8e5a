#!/usr/bin/env python3
"""Bytes, operations and memory in reports are those that one counts by hand.

    report_counts_test.py PROGRAM

Each row is a tiny program with numbers that follow from shapes and from the counting rules of
scenarios/README.md: bytes that a ring sends, two operations a product, bytes of pieces. Numbers
that are in several places, in JSON and in the text, have to be equal everywhere.
"""

import json
import struct
import sys
import unittest

from program import Program


def scenario(code, mesh="x = 4", inputs=(), expect=""):
    given = "\n".join(f"{name} = {declared}" for name, declared in inputs)
    body = "\n".join(code) if isinstance(code, list) else code
    return f'[mesh]\n{mesh}\n[inputs]\n{given}\n[program]\ncode = """\n{body}\n"""\n{expect}'


def typed(text, **more):
    fields = "".join(f', {key} = {json.dumps(value)}' for key, value in more.items())
    return f'{{ type = "{text}"{fields} }}'


class Counted(Program):
    def run_json(self, text, *options):
        code, output, errors = self.shardlab("run", "--json", *options, text=text)
        run = json.loads(output)
        self.assertEqual((code, errors), (0, ""), run.get("error"))
        return run


# type of a, placing, kind, bytes that a rank sends; on 4 ranks.
MOVES = [
    ("f32[8@x, 6]", "x=R", "all_gather", 3 / 4 * 8 * 6 * 4),
    ("f64[8@x, 6]", "x=R", "all_gather", 3 / 4 * 8 * 6 * 8),
    ("bf16[8@x, 6]", "x=R", "all_gather", 3 / 4 * 8 * 6 * 2),
    ("i8[8@x, 6]", "x=R", "all_gather", 3 / 4 * 8 * 6),
    ("f32[7@x, 6]", "x=R", "all_gather", 3 / 4 * 7 * 6 * 4),
    ("f32[3@x, 6]", "x=R", "all_gather", 3 / 4 * 3 * 6 * 4),
    ("f32[6, 8@x]", "x=R", "all_gather", 3 / 4 * 8 * 6 * 4),
    ("f32[8, 6]{sum:x}", "x=R", "all_reduce", 2 * 3 / 4 * 8 * 6 * 4),
    ("f32[8, 6]{avg:x}", "x=R", "all_reduce", 2 * 3 / 4 * 8 * 6 * 4),
    ("f32[]{sum:x}", "x=R", "all_reduce", 2 * 3 / 4 * 4),
    ("i64[5]{max:x}", "x=R", "all_reduce", 2 * 3 / 4 * 5 * 8),
    ("f32[8, 6]{sum:x}", "x=S(0)", "reduce_scatter", 3 / 4 * 8 * 6 * 4),
    ("f32[6, 8]{sum:x}", "x=S(1)", "reduce_scatter", 3 / 4 * 8 * 6 * 4),
    ("f32[8@x, 12]", "x=S(1)", "all_to_all", 3 / 4 * (8 * 12 * 4 / 4)),
    ("f64[4, 8@x]", "x=S(0)", "all_to_all", 3 / 4 * (8 * 4 * 8 / 4)),
]
# A program on plain tensors of 4 ranks, its collective, bytes.
OWN = [
    ('all_reduce(ones([10]), "sum", group="x")', "all_reduce", 2 * 3 / 4 * 40),
    ('all_reduce(ones([10]), "max", group="x")', "all_reduce", 2 * 3 / 4 * 40),
    ('all_gather(ones([10]), 0, group="x")', "all_gather", 3 / 4 * 4 * 40),
    ('all_gather(ones([2, 5], dtype=f64), 1, group="x")', "all_gather", 3 / 4 * 4 * 80),
    ('reduce_scatter(ones([8, 2]), "sum", 0, group="x")', "reduce_scatter", 3 / 4 * 64),
    ('all_to_all(ones([8, 4]), 0, 1, group="x")', "all_to_all", 3 / 4 * 128),
]


class Collectives(Counted):
    def check(self, run, kind, bytes_sent, times=1):
        events = [e["collective"] for e in run["events"] if "collective" in e]
        self.assertEqual([e["kind"] for e in events], [kind] * times)
        self.assertEqual([e["sent_bytes"] for e in events], [bytes_sent] * times)
        (group,) = run["collectives"]["by_group"]
        self.assertEqual((group["kind"], group["group"], group["forward"], group["backward"]),
                         (kind, "x", times, 0))
        self.assertEqual(group["sent_bytes"], bytes_sent * times)
        self.assertEqual(run["collectives"]["sent_bytes"], bytes_sent * times)
        self.assertEqual(run["collectives"]["largest_rank"],
                         {kind: {"forward": times, "backward": 0}})
        (line,) = [line for line in run["lines"] if line["collectives"]]
        (of_line,) = line["collectives"]
        self.assertEqual((of_line["times"], of_line["sent_bytes"]), (times, bytes_sent * times))
        self.assertAlmostEqual(of_line["predicted_us"], group["predicted_us"], 9)

    def test_moves_send_what_a_ring_sends(self):
        for declared, target, kind, bytes_sent in MOVES:
            with self.subTest(declared, target=target):
                init = {} if declared.startswith(("f", "bf")) else {"init": "ones"}
                text = scenario(f"b = a.redistribute({target})",
                                inputs=[("a", typed(declared, **init))])
                self.check(self.run_json(text), kind, bytes_sent)

    def test_collectives_of_the_program(self):
        for call, kind, bytes_sent in OWN:
            with self.subTest(call):
                self.check(self.run_json(scenario(f"y = {call}")), kind, bytes_sent)

    def test_a_loop_adds_up(self):
        text = scenario(["for i in range(5):", "    y = (a + i).redistribute(x=R)"],
                        inputs=[("a", typed("f32[8@x, 6]"))])
        self.check(self.run_json(text), "all_gather", 144.0, times=5)

    def test_a_group_of_one_rank_or_free_moves_send_nothing(self):
        for mesh, declared, target in [("x = 1", "f32[8@x]", "x=R"), ("x = 4", "f32[8]", "x=S(0)"),
                                       ("x = 4", "f32[8]", "x=P(sum)"), ("x = 4", "f32[8]", "x=R")]:
            with self.subTest(mesh=mesh, target=target):
                run = self.run_json(scenario(f"b = a.redistribute({target})", mesh,
                                             [("a", typed(declared))]))
                self.assertEqual(run["collectives"]["sent_bytes"], 0)

    def test_each_mesh_dim_has_its_own_row(self):
        text = scenario("b = a.redistribute(dp=R, tp=R)", "dp = 2\ntp = 4",
                        [("a", typed("f32[8@dp, 16@tp]"))])
        run = self.run_json(text)
        sent = {group["group"]: group["sent_bytes"] for group in run["collectives"]["by_group"]}
        whole = 8 * 16 * 4
        # One of them gathers halves of the other's pieces, in either order.
        self.assertIn(sent, [{"dp": 1 / 2 * whole / 4, "tp": 3 / 4 * whole},
                             {"dp": 1 / 2 * whole, "tp": 3 / 4 * whole / 2}])
        self.assertEqual(run["collectives"]["sent_bytes"], sum(sent.values()))

    def test_the_text_and_the_expectation_say_the_same(self):
        text = scenario("b = a.redistribute(x=R)", inputs=[("a", typed("f32[8@x, 512]"))],
                        expect='[expect]\nbytes = 12288\ncollectives = { all_gather = 1 }\n')
        output = self.fine("run", text=text)
        self.assertRegex(output,
                         r"\n  all_gather +over x +4 ranks +1 forward +0 backward +12 KiB sent ")
        self.assertIn("  met  bytes                    12288\n", output)
        code, output, _ = self.shardlab("run", text=text.replace("12288", "12287"))
        self.assertEqual(code, 1)
        self.assertIn("  not met bytes                    expected 12287, got 12288\n", output)

    def test_links_scale_the_time_of_what_is_sent(self):
        text = scenario("b = a.redistribute(x=R)", inputs=[("a", typed("f32[1048576@x, 64]"))],
                        expect='[expect]\nverify = "none"\n')
        slow, fast = [
            self.run_json(text, "--backend", "fake", "--link", link)
            ["collectives"]["by_group"][0]["predicted_us"] for link in ("x=10,1", "x=20,1")]
        # 3/4 of 256 MiB at 10 * 2**30 bytes a second take 18,750 us; twice as fast saves half.
        self.assertAlmostEqual(slow - fast, 18750 / 2, delta=1)


# code, inputs, operations of a rank forward and backward; on 4 ranks.
X, W = ("x", typed("f32[8@x, 16]")), ("w", typed("f32[16, 32]"))
LEAF = ("w", typed("f32[16, 32]", requires_grad=True))
PRODUCTS = [
    ("y = x @ w", [X, W], 2 * 2 * 16 * 32, 0),
    ("y = x @ w\nbackward(y.sum())", [X, LEAF], 2 * 2 * 16 * 32, 2 * 2 * 16 * 32),
    ("y = F.linear(x, v)", [X, ("v", typed("f32[5, 16]"))], 2 * 2 * 16 * 5, 0),
    ("y = x @ c", [X, ("c", typed("f32[16, 32@x]"))], None, 0),
    ("y = b @ b.mT", [("b", typed("f32[8@x, 3, 5]"))], 2 * 2 * 3 * 5 * 3, 0),
    ("y = x @ v", [X, ("v", typed("f32[16]"))], 2 * 2 * 16, 0),
    ("y = x + x * 2", [X], 0, 0),
    ("y = F.conv2d(i, k)", [("i", typed("f32[4@x, 3, 8, 8]")), ("k", typed("f32[6, 3, 3, 3]"))],
     2 * 1 * 6 * 6 * 6 * 3 * 3 * 3, 0),
    ("y = F.conv1d(i, k, padding=1)",
     [("i", typed("f32[4@x, 2, 9]")), ("k", typed("f32[5, 2, 3]"))],
     2 * 1 * 5 * 9 * 2 * 3, 0),
]


class Work(Counted):
    def test_products_and_convolutions(self):
        for code, inputs, forward, backward in PRODUCTS:
            with self.subTest(code):
                run = self.run_json(scenario(code, inputs=inputs))
                of_lines = [sum(line["flops"][way] for line in run["lines"])
                            for way in ("forward", "backward")]
                if forward is not None:
                    self.assertEqual(of_lines, [forward, backward])
                (work,) = run["work"]
                self.assertEqual((work["ranks"], work["flops"]), ("0-3", sum(of_lines)))

    def test_ranks_of_shorter_pieces_compute_less(self):
        run = self.run_json(scenario("y = x @ w", inputs=[("x", typed("f32[7@x, 16]")), W]))
        self.assertEqual([(work["ranks"], work["flops"]) for work in run["work"]],
                         [("0-2", 2 * 2 * 16 * 32), ("3", 2 * 1 * 16 * 32)])

    def test_a_rank_without_rows_computes_nothing(self):
        run = self.run_json(scenario("y = x @ w", inputs=[("x", typed("f32[5@x, 16]")), W]))
        self.assertEqual([(work["ranks"], work["flops"]) for work in run["work"]],
                         [("0,1", 2 * 2 * 16 * 32), ("2", 2 * 1 * 16 * 32), ("3", 0)])

    def test_bytes_of_ops_are_what_they_read_and_write(self):
        run = self.run_json(scenario("y = x + x\nz = y.t()\nv = exp(y)", inputs=[X]))
        piece = 2 * 16 * 4
        self.assertEqual([line["op_bytes"] for line in run["lines"]], [3 * piece, 0, 2 * piece])
        self.assertEqual(run["work"][0]["op_bytes"], 5 * piece)


class Memory(Counted):
    def test_inputs_are_pieces(self):
        for declared, piece in [("f32[8@x, 6]", 2 * 6 * 4), ("f64[7@x]", 2 * 8), ("f32[8, 6]", 192),
                                ("f32[8, 6]{sum:x}", 192), ("bf16[3@x, 5]", 5 * 2)]:
            with self.subTest(declared):
                run = self.run_json(scenario("pass", inputs=[("a", typed(declared))]))
                self.assertEqual(run["memory"]["most"]["inputs"], piece)
                self.assertEqual(run["memory"]["peak"]["bytes"], piece)

    def test_a_gathered_tensor_is_held_with_its_piece(self):
        run = self.run_json(scenario("b = a.redistribute(x=R)",
                                     inputs=[("a", typed("f32[8@x, 6]"))]))
        memory = run["memory"]
        self.assertEqual((memory["most"]["inputs"], memory["most"]["gathered"]), (48, 192))
        self.assertGreaterEqual(memory["peak"]["bytes"], 48 + 192)

    def test_expected_bytes_are_met_exactly(self):
        text = scenario("b = a + a", inputs=[("a", typed("f32[8@x, 6]"))],
                        expect="[expect]\nmemory = { peak = 96, inputs = 48, temporaries = 48 }\n")
        run = self.run_json(text)
        self.assertEqual([e["met"] for e in run["expectations"]], [True] * 3)
        self.assertEqual(run["memory"]["logical_rank_bytes"], 96)

    def test_the_peak_is_the_sum_of_its_purposes(self):
        text = scenario("y = gelu(x @ w) @ w.t()\nbackward(y.sum())", inputs=[X, LEAF])
        peak = self.run_json(text)["memory"]["peak"]
        purposes = ("communication", "gathered", "gradients", "inputs", "kept_for_backward",
                    "temporaries")
        self.assertEqual(peak["bytes"], sum(peak[purpose] for purpose in purposes))


class Values(Counted):
    def test_elements_hash_and_count(self):
        text = scenario("y = a * 2\nflags = a > 3\nwhole = a.to(i64)",
                        inputs=[("a", typed("f32[7@x]", init="arange"))])
        output = self.fine("run", "--json", "--values", "all", text=text)
        found = {value["name"]: value["whole"][0] for value in json.loads(output)["values"]}
        self.assertEqual(found["y"]["elements"], [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0])
        self.assertEqual((found["y"]["count"], found["y"]["largest"], found["y"]["shape"]),
                         (7, 12, [7]))
        self.assertEqual(found["y"]["hash"], fnv(found["y"]["elements"], "d"))
        self.assertEqual(found["whole"]["hash"], fnv(range(7), "q"))
        self.assertEqual([bool(x) for x in found["flags"]["elements"]], [False] * 4 + [True] * 3)

    def test_the_first_elements_alone(self):
        text = scenario("y = a * 2", inputs=[("a", typed("f32[7@x]", init="arange"))])
        output = self.fine("run", "--json", "--values", "3", text=text)
        (value,) = json.loads(output)["values"]
        self.assertEqual(value["whole"][0]["elements"], [0.0, 2.0, 4.0])
        self.assertEqual(value["whole"][0]["count"], 7)

    def test_numbers_that_json_has_not(self):
        text = scenario("y = log(a - 1)", inputs=[("a", typed("f32[3@x]", init="arange"))])
        code, output, _ = self.shardlab("run", "--json", "--values", "all", text=text)
        self.assertEqual(code, 0)
        (value,) = json.loads(output)["values"]
        self.assertEqual(value["whole"][0]["elements"], ["nan", "-inf", 0.0])


def fnv(numbers, form):
    """FNV-1a of 64 bits over little-endian numbers of that form."""
    state = 0xCBF29CE484222325
    for byte in b"".join(struct.pack("<" + form, number) for number in numbers):
        state = (state ^ byte) * 0x100000001B3 % 2**64
    return f"{state:016x}"


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
