#!/usr/bin/env python3
"""A time line that `run --perfetto` writes: slices nest, pairs match, ranks leave a collective
together, and its times are those of the report.

    time_line_test.py PROGRAM
"""

import collections
import json
import pathlib
import unittest

from program import Program

ROOT = pathlib.Path(__file__).resolve().parents[2]

ASYNC = """
[mesh]
x = 3
[inputs]
a = "f32[4, 6]"
[program]
code = '''
t = a.to_local() + rank
w = dist.all_reduce(t, async_op=True)
b = a @ a.t()
c = b @ b
w.wait()
u = t + 1
'''
"""
MESSAGES = """
[mesh]
x = 2
[program]
code = '''
t = torch.ones(3)
if rank == 0:
    y = torch.randn(64, 64) @ torch.randn(64, 64)
    dist.send(t, 1)
else:
    dist.recv(t, 0)
'''
"""
DEADLOCK = """
[mesh]
x = 2
[program]
code = '''
t = torch.ones(3)
dist.recv(t, 1 - rank)
'''
"""
SHIPPED = ["models/megatron_mlp", "models/gpipe", "models/one_forward_one_backward",
           "models/ring_attention", "models/mixture_of_experts", "models/fsdp_three_layers",
           "smoke/torch_distributed", "smoke/groups_and_meshes"]


class TimeLine(Program):
    def time_line(self, *arguments, text=None, code=0):
        out = self.folder / "line.json"
        got, output, errors = self.shardlab("run", "--perfetto", str(out), "--json", *arguments,
                                               text=text)
        self.assertEqual((got, errors), (code, ""), output)
        return json.loads(out.read_text(encoding="utf-8")), json.loads(output)

    def slices(self, line):
        """By rank, in the order in which they begin; the longer of two first."""
        by_rank = collections.defaultdict(list)
        for event in line["traceEvents"]:
            if event["ph"] == "X":
                by_rank[event["pid"]].append(event)
        for found in by_rank.values():
            found.sort(key=lambda event: (event["ts"], -event["dur"]))
        return by_rank

    def check(self, line):
        for rank, found in self.slices(line).items():
            ends = []
            for event in found:
                begin, end = event["ts"], event["ts"] + event["dur"]
                while ends and ends[-1] <= begin + 1e-9:
                    ends.pop()
                self.assertGreaterEqual(event["dur"], 0, event)
                self.assertTrue(not ends or end <= ends[-1] + 1e-6, (rank, event, ends))
                ends.append(end)
        begun = {}
        for event in line["traceEvents"]:
            if event["ph"] == "b":
                begun[event["id"]] = event["ts"]
            if event["ph"] == "e":
                self.assertLessEqual(begun.pop(event["id"]), event["ts"])
        self.assertEqual(begun, {})

    def test_shipped_programs(self):
        for name in SHIPPED:
            with self.subTest(name):
                line, report = self.time_line(str(ROOT / "scenarios" / f"{name}.toml"))
                self.check(line)
                slices = self.slices(line)
                self.assertEqual(len(slices), report["ranks"])
                spent = collections.Counter()
                for event in slices[0]:
                    name = event["name"].removeprefix("wait for ")
                    spent[name] += event["args"].get("predicted_us", 0)
                for group in report["collectives"]["by_group"]:
                    name = f"{group['kind']} over {group['group']}"
                    if group["kind"] not in ("send", "recv", "batch"):
                        # Of uneven pieces the rank that takes longest counts for all.
                        self.assertGreaterEqual(spent[name] + 1e-6, group["predicted_us"], name)
                        self.assertLess(spent[name], 1.05 * group["predicted_us"], name)

    def test_a_call_takes_what_its_work_takes_at_the_rates(self):
        text = "mesh = { x = 2 }\n[inputs]\na = \"f32[4, 6]\"\n[program]\ncode = \"b = a @ a.t()\""
        # (4 x 6) (6 x 4): 2 * 4 * 4 * 6 operations on (24 + 24 + 16) * 4 bytes.
        for rates, us in (("1e-6,1000,1", 192 + 1), ("1000,1e-6,0.5", 256 + 0.5)):
            line, _ = self.time_line("--rates", rates, text=text)
            product = [event for event in self.slices(line)[0]
                       if event["name"].startswith("aten::mm(")]
            self.assertEqual([round(event["dur"], 6) for event in product], [us])
        path = str(ROOT / "scenarios/models/megatron_mlp.toml")
        page = str(self.folder / "t.json")
        for rates in ("1,2", "1,2,0", "1,2,x"):
            code, output, errors = self.shardlab("run", "--perfetto", page, "--rates", rates, path)
            self.assertEqual((code, output), (2, ""))
            self.assertIn("not three numbers above 0", errors)
        code, output, _ = self.shardlab("run", "--perfetto", page, "--summary", path)
        self.assertIn("calls at 100 TFLOP/s, 2 TB/s, 1 us a call (assumed; --rates)", output)

    def test_ranks_leave_a_collective_together(self):
        line, _ = self.time_line(str(ROOT / "scenarios/models/megatron_mlp.toml"))
        ends = collections.defaultdict(list)
        for rank, found in self.slices(line).items():
            tp = rank % 4
            over = [event for event in found if event["name"].endswith(" over tp")]
            for number, event in enumerate(over):
                ends[rank - tp, number].append(round(event["ts"] + event["dur"], 6))
                self.assertGreaterEqual(event["dur"] + 1e-9, event["args"]["predicted_us"])
        self.assertGreater(len(ends), 2)
        for key, moments in ends.items():
            self.assertEqual(len(set(moments)), 1, (key, moments))

    def test_an_asynchronous_collective_is_a_pair_and_its_wait_ends_with_it(self):
        line, _ = self.time_line(text=ASYNC)
        self.check(line)
        last = {event["pid"]: event["ts"] for event in line["traceEvents"] if event["ph"] == "e"}
        self.assertEqual(sorted(last), [0, 1, 2])
        for rank, found in self.slices(line).items():
            wait = next(event for event in found if event["name"].startswith("wait for"))
            after = [event for event in found if event["ts"] > wait["ts"]]
            self.assertGreaterEqual(wait["ts"] + wait["dur"] + 1e-9, last[rank])
            self.assertTrue(all(event["ts"] + 1e-9 >= last[rank] for event in after))

    def test_a_message_arrives_after_it_is_sent(self):
        line, _ = self.time_line(text=MESSAGES)
        self.check(line)
        slices = self.slices(line)
        sent = next(event for event in slices[0] if event["name"].startswith("send"))
        came = next(event for event in slices[1] if event["name"].startswith("recv"))
        self.assertGreater(sent["ts"], came["ts"])  # rank 0 computes first
        self.assertAlmostEqual(sent["ts"] + sent["dur"], came["ts"] + came["dur"])

    def test_a_deadlock_ends_in_what_never_completed(self):
        line, _ = self.time_line(text=DEADLOCK, code=1)
        self.check(line)
        for found in self.slices(line).values():
            self.assertIn("never completed", found[-1]["name"])

    def test_several_runs_are_refused(self):
        out = self.folder / "line.json"
        path = str(ROOT / "scenarios/smoke/add.toml")
        code, _, errors = self.shardlab("run", "--perfetto", str(out), path, path)
        self.assertEqual(code, 2)
        self.assertIn("a time line is of one run", errors)


if __name__ == "__main__":
    unittest.main(argv=[__file__])
