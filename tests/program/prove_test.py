#!/usr/bin/env python3
"""shardlab prove: which programs can hang, on which fabric.

    prove_test.py PROGRAM SCENARIOS [--mutations COUNT]

The verdicts of the counterexamples are written by hand: they are those of the page
scenarios/hangs.md.
"""

import gzip
import json
import os
import pathlib
import random
import re
import sys
import unittest
import xml.etree.ElementTree as xml

import program

ALL = ["buffered", "nonblocking", "pair_queue", "group_queue", "one_queue", "blocking"]
SCHEDULE = """0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0WAIT_SEND_F0,0RECV_B1,0B1,0WAIT_SEND_F1
1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1WAIT_SEND_B0,1WAIT_SEND_B1
"""
# On which fabrics each counterexample hangs, and the exit code.
HANGS = {
    "any_sender": (["buffered", "nonblocking"], 1),
    "any_sender_and_buffers": (["buffered"], 2),
    "poll": (["nonblocking", "pair_queue", "group_queue"], 1),
    "two_groups": (["one_queue", "blocking"], 0),
    "one_rank_in_another_order": ([], 0),
    "first_use": (["group_queue", "one_queue", "blocking"], 1),
    "head_on": (["pair_queue", "group_queue", "one_queue", "blocking"], 1),
    "no_hidden_wait": (["group_queue", "one_queue", "blocking"], 1),
    "hidden_wait": (["pair_queue", "group_queue", "one_queue", "blocking"], 1),
}


# The same programs as PyTorch ran them on gloo, recorded: tests/golden/recordings/orders.py.
RECORDED = {
    "head_on_2": HANGS["head_on"][0],
    "batched_2": [],
    "first_use_4": HANGS["first_use"][0],
    "two_groups_2": HANGS["two_groups"][0],
    "other_calls_2": HANGS["two_groups"][0],
    "other_group_2": HANGS["two_groups"][0],
    # A group's queue has the message before the barrier on one rank, and behind it on the other.
    "before_a_barrier_2": ["group_queue", "one_queue", "blocking"],
    "schedule_2": ["pair_queue", "group_queue", "one_queue", "blocking"],
}
# What a program needs beside its code: two tensors of each rank.
FRAME = """[mesh]
x = {ranks}
[inputs]
a = {{ type = "{dtype}[4]", init = "arange" }}
[program]
code = '''
t, got = a.to_local() + 1, torch.zeros([4])
{code}'''
"""
BRANCH = """dist.all_reduce(t{op})
if t.sum().item() > {least}:
    dist.all_reduce(t)
"""


class Prove(program.Program):
    scenarios, mutations = pathlib.Path(), 300

    def prove(self, *arguments):
        """(exit code, the JSON)."""
        code, output, _ = self.shardlab("prove", "--json", *arguments)
        return code, json.loads(output) if output else None

    def csv(self, text, *arguments):
        (self.folder / "s.csv").write_text(text, encoding="utf-8")
        return self.prove("s.csv", *arguments)

    def usual(self, name):
        return self.scenarios / "hangs" / f"{name}.toml"

    def test_counterexamples(self):
        for name, (wanted, code) in HANGS.items():
            with self.subTest(name):
                asked = [word for one in ("nonblocking", "pair_queue", "group_queue")
                         for word in ("--transport", one)]
                got, found = self.prove(self.usual(name), *asked)
                ends = {one: fabric["ends"] for one, fabric in found["transports"].items()}
                self.assertEqual(sorted(one for one in ends if not ends[one]), sorted(wanted))
                self.assertEqual(got, code)

    def test_conditions_are_named_with_their_lines(self):
        """Each condition that can fail, and a healthy twin."""
        text = self.usual("any_sender").read_text("utf-8")
        self.plant(c1=text, c1_twin=text.replace("dist.recv(got)\n", "dist.recv(got, 2)\n"))
        text = self.usual("poll").read_text("utf-8")
        self.plant(c2=text, c2_twin=text.replace(
            "    if work.is_completed():\n        dist.recv(more, 2)\n", ""))
        for name, line in (("c1", 11), ("c2", 12)):
            with self.subTest(name):
                conditions = self.prove(f"{name}.toml")[1]["conditions"]
                self.assertEqual({one["name"] for one in conditions}, {name.upper()})
                self.assertTrue(all(f"line {line}" in one["text"] for one in conditions))
                code, found = self.prove(f"{name}_twin.toml", "--transport", "nonblocking")
                self.assertEqual((code, found["verdict"]), (0, "free"))
                self.assertNotIn("conditions", found)
        # A wait of the host is a step of the rank; reading an own value waits for no message.
        text = self.usual("hidden_wait").read_text("utf-8")
        self.plant(c5=text, c5_twin=text.replace("torch.cuda.synchronize()", "t.sum().item()"))
        for name, ends in (("c5", False), ("c5_twin", True)):
            found = self.prove(f"{name}.toml")[1]
            self.assertEqual(found["transports"]["pair_queue"]["ends"], ends)

    def lines_of(self, frame, text, wanted):
        """The lines of `frame` around `text` on which a word stands."""
        whole = FRAME.format(code=text, **frame)
        return [i for i, line in enumerate(whole.split("\n"), 1) if wanted in line], whole

    def test_a_branch_on_a_sum_that_rounds(self):
        """C2, and twins: two ranks, whole numbers, a maximum, and a branch on an own value."""
        for ranks, dtype, op, fails in ((3, "f32", "", True), (4, "bf16", "", True),
                                        (2, "f32", "", False), (3, "i64", "", False),
                                        (3, "f32", ", op=dist.ReduceOp.MAX", False)):
            with self.subTest(f"{ranks} {dtype}{op}"):
                code = BRANCH.format(op=op, least=2)
                (line,), text = self.lines_of({"ranks": ranks, "dtype": dtype}, code, "if t.")
                self.plant(one=text)
                exit_code, found = self.prove("one.toml")
                self.assertEqual((exit_code, found["verdict"]),
                                 (2, "not_given") if fails else (0, "free"))
                texts = [one["name"] + " " + one["text"] for one in found.get("conditions", [])]
                self.assertEqual([one[:len(f"C2 line {line}:")] for one in texts],
                                 [f"C2 line {line}:"] if fails else [])
        own = "if t.sum().item() > 2:\n    print(1)\ndist.all_reduce(t)\nprint(t.sum().item())\n"
        self.plant(own=FRAME.format(ranks=3, dtype="f32", code=own))
        self.assertEqual(self.prove("own.toml")[0], 0)

    def test_a_timeout_that_is_caught(self):
        """C2; without a handler, or without a timeout, the program does not go on after it."""
        code = ("if rank == 0:\n    w = dist.irecv(got, 1)\n    try:\n        w.wait({0})\n"
                "    {1}:\n        print(1)\nelse:\n    dist.send(t, 0)\n")
        for given, way, fails in (("timeout=5", "except RuntimeError", True), ("5", "except", True),
                                  ("timeout=5", "finally", False), ("", "except", False)):
            with self.subTest(given + way):
                (line,), text = self.lines_of({"ranks": 2, "dtype": "f32"}, code.format(given, way),
                                              "w.wait")
                self.plant(one=text)
                exit_code, found = self.prove("one.toml")
                self.assertEqual(exit_code, 2 if fails else 0)
                texts = [one["name"] + " " + one["text"] for one in found.get("conditions", [])]
                self.assertEqual([one.split(":")[0] for one in texts],
                                 [f"C2 line {line}"] if fails else [])

    def test_calls_of_one_group_in_two_orders(self):
        """C3: the k-th collectives of a group are one call; its twin has one order on all ranks."""
        orders = ("dist.all_reduce(t)\n", "dist.broadcast(t, 0)\n")
        code = "if rank == 0:\n    {0}    {1}else:\n    {2}    {3}"
        (line, *_), text = self.lines_of({"ranks": 2, "dtype": "f32"},
                                         code.format(*orders, *orders[::-1]), "dist.")
        self.plant(crossed=text, twin=FRAME.format(ranks=2, dtype="f32",
                                                   code=code.format(*orders, *orders)))
        exit_code, found = self.prove("crossed.toml")
        self.assertEqual((exit_code, found["verdict"]), (2, "not_given"))
        self.assertEqual([one["name"] for one in found["conditions"]], ["C3"])
        self.assertIn(f"crossed.toml:{line}: rank 0 is in all_reduce",
                      found["conditions"][0]["text"])
        self.assertEqual(self.prove("twin.toml")[0], 0)

    def test_hooks_of_backward_run_in_the_thread_of_their_rank(self):
        """C4 holds in every scenario; threads of a recorded program are in the next test."""
        path = self.scenarios / "smoke/backward_hooks.toml"
        code, found = self.prove(path)
        self.assertEqual((code, found["verdict"]), (0, "free"))
        self.assertNotIn("conditions", found)

    def recorded(self, name):
        return self.scenarios.parent / f"tests/golden/recordings/orders/{name}__2.15.0.json.gz"

    def line_of(self, text):
        """Of orders.py."""
        lines = (self.recorded("").parent.parent / "orders.py").read_text("utf-8").split("\n")
        return [f"orders.py:{i}" for i, line in enumerate(lines, 1) if text in line]

    def test_recordings_have_the_verdicts_of_their_programs(self):
        for name, wanted in RECORDED.items():
            with self.subTest(name):
                asked = [word for one in ALL for word in ("--transport", one)]
                code, found = self.prove(self.recorded(name), *asked)
                ends = {one: fabric["ends"] for one, fabric in found["transports"].items()}
                self.assertEqual(sorted(one for one in ends if not ends[one]), sorted(wanted))
                self.assertEqual(code, 1 if wanted else 0)
                self.assertNotIn("conditions", found)
        found = self.prove(self.recorded("head_on_2"))[1]
        circle = found["transports"]["pair_queue"]["circle"]
        (sends,), (receives,) = self.line_of("dist.isend(t, 1 - rank)"), self.line_of(
            "dist.irecv(got, 1 - rank)")
        self.assertIn(f"({sends})  stands before recv from rank 1 ({receives})", circle[0]["text"])

    def test_a_schedule_as_csv_as_a_scenario_and_as_a_recording(self):
        """One verdict on each fabric, and the same least number of buffers."""
        folder = self.scenarios / "pipelines"
        self.plant(gpipe=(folder / "gpipe.toml").read_text(encoding="utf-8"))
        for name in ("pipeline.py", "gpipe.csv"):
            (self.folder / name).write_text((folder / name).read_text(encoding="utf-8"),
                                            encoding="utf-8")
        (self.folder / "gpipe.csv").write_text(SCHEDULE, encoding="utf-8")
        csv = self.prove("gpipe.csv")[1]
        run = self.prove("--set", "mesh.pp=2", "--set", "params.stages=2", "--set",
                         "params.micro=2", "--", "gpipe.toml")[1]
        recorded = self.prove(self.recorded("schedule_2"))[1]
        for found in (run, recorded):
            self.assertEqual({one: fabric["ends"] for one, fabric in found["transports"].items()},
                             {one: fabric["ends"] for one, fabric in csv["transports"].items()})
            self.assertEqual(found["least_buffers"], csv["least_buffers"])

    def test_conditions_of_recordings_are_named_with_their_lines(self):
        for name, condition, places in (
                ("any_sender_3", "C1", self.line_of("        dist.recv(t)")),
                ("poll_2", "C2", self.line_of("work.is_completed()")),
                ("threads_2", "C4", self.line_of("        dist.all_reduce(t)")[:1]),
                ("posts_elsewhere_2", "C4", self.line_of("own = threading.Thread(target=lambda"))):
            with self.subTest(name):
                code, found = self.prove(self.recorded(name))
                self.assertEqual((code, found["verdict"]), (2, "not_given"))
                self.assertEqual([(one["name"], one["text"].rsplit(": ", 1)[0])
                                  for one in found["conditions"]],
                                 [(condition, place) for place in places])
        # A wait that fails, as the recorder notes it; gloo takes no further message then.
        code, found = self.noted("batched_2", '"c10d.recv_', "a wait that failed")
        self.assertEqual(code, 2)
        self.assertRegex(found["conditions"][0]["text"],
                         r"^orders\.py:\d+: a wait that failed depends on timing")

    def test_receives_from_any_rank_of_a_recording_are_met_in_every_way(self):
        found = self.prove(self.recorded("any_sender_3"))[1]
        self.assertEqual((found["tried"]["leaves"], found["tried"]["all"]), (2, True))
        self.assertTrue(all(fabric["ends"] for fabric in found["transports"].values()))
        self.assertNotIn("free", self.shardlab("prove", self.recorded("any_sender_3"))[1])

    def test_crossed_messages_of_a_recorded_schedule(self):
        """As many as the reference counts for this schedule with defer_pp_recv=True."""
        code, found = self.prove("--transport", "nonblocking", self.recorded("deferred_2"))
        self.assertEqual((code, found["verdict"]), (1, "wrong_delivery"))
        self.assertEqual([(one["sent"], one["received"]) for one in found["wrong_messages"]],
                         [("B0 of stage 1", "F2 of stage 1"), ("F2 of stage 1", "B0 of stage 1"),
                          ("B1 of stage 1", "F3 of stage 1"), ("F3 of stage 1", "B1 of stage 1")])
        code, output, _ = self.shardlab("replay", self.recorded("deferred_2"))
        self.assertEqual(code, 1)
        self.assertIn("expected F2 of stage 1\n  got      B0 of stage 1, which rank 0 sent", output)
        self.fine("replay", self.recorded("schedule_2"))

    def test_recordings_run_on_a_fabric(self):
        for name, wanted in RECORDED.items():
            for fabric in ("nonblocking", "group_queue"):
                with self.subTest(f"{name} {fabric}"):
                    code, output, _ = self.shardlab("run", "--transport", fabric,
                                                    self.recorded(name))
                    self.assertEqual(code, 1 if fabric in wanted else 0, output)
                    self.assertEqual("hangs where" in output, fabric in wanted)
        code, output, _ = self.shardlab("run", "--json", "--transport", "pair_queue",
                                        self.recorded("head_on_2"))
        found = json.loads(output)
        self.assertEqual((code, found["ok"], found["promise"]["verdict"]), (1, True, "hangs"))
        self.assertEqual(list(found["promise"]["transports"]), ["pair_queue"])

    def noted(self, name, behind, wait):
        """The proof of a recording with a further wait behind some calls."""
        lines = []
        for line in gzip.decompress(self.recorded(name).read_bytes()).decode().splitlines():
            lines.append(line)
            if behind in line:
                event = json.loads(line)
                lines.append(json.dumps({"k": "wait", "at": event["at"], "name": wait,
                                         "p": event["p"]}))
        lines[-1] = json.dumps({**json.loads(lines[-1]), "events": len(lines)},
                               separators=(",", ":"))
        (self.folder / "w.json.gz").write_bytes(gzip.compress("\n".join([*lines, ""]).encode()))
        return self.prove("w.json.gz")

    def test_a_host_that_synchronizes_in_a_recording(self):
        """C5: the wait of the host is a step, as in hangs/hidden_wait."""
        found = self.noted("first_use_4", '"c10d.send', "synchronize")[1]
        self.assertEqual(sorted(one for one, fabric in found["transports"].items()
                                if not fabric["ends"]), sorted(HANGS["hidden_wait"][0]))

    def test_recordings_of_older_recorders(self):
        """Those with messages do not say where a rank waits for a send: C5 is named."""
        folder = self.scenarios.parent / "tests/golden/recordings/ranks"
        code, found = self.prove(folder / "fsdp_2__2.15.0.json.gz")
        self.assertEqual((code, found["verdict"]), (0, "free"))
        for name in ("chain_3", "pipeline_2"):
            code, found = self.prove(folder / f"{name}__2.15.0.json.gz")
            self.assertEqual((code, found["verdict"]), (2, "not_given"))
            self.assertEqual([one["name"] for one in found["conditions"]], ["C5"])
            self.assertRegex(found["conditions"][0]["text"], r"^\S+\.py:\d+: ")

    def test_a_receive_from_any_rank_may_take_the_wrong_message(self):
        text = self.usual("any_sender").read_text("utf-8")
        begin, end = text.index("elif rank == 1"), text.rindex('"""')
        (self.folder / "any.toml").write_text(
            text[:begin] + "else:\n    dist.send(t, 0)\n" + text[end:], encoding="utf-8")
        fabrics = self.prove("any.toml")[1]["transports"]
        ends = [one for one, fabric in fabrics.items() if not fabric["ends"]]
        self.assertEqual(sorted(ends), ["blocking", "buffered", "nonblocking"])

    def test_sends_that_wait_are_no_sends_in_passing(self):
        both = self.scenarios / "zoo" / "both_send_first.toml"
        found = self.prove(both)[1]
        ends = [one for one, fabric in found["transports"].items() if fabric["ends"]]
        self.assertEqual(ends, ["buffered"])

    def test_communicators_made_at_first_use(self):
        code, found = self.prove(self.usual("first_use"), "--lazy-groups")
        self.assertEqual((code, found["verdict"]), (1, "hangs"))
        self.assertFalse(found["transports"]["pair_queue"]["ends"])

    def test_leaves_of_receives_from_any_rank(self):
        found = self.prove(self.usual("any_sender_and_buffers"))[1]
        self.assertEqual(found["verdict"], "not_given")
        self.assertEqual((found["tried"]["leaves"], found["tried"]["all"]), (2, True))
        output = self.shardlab("prove", self.usual("any_sender_and_buffers"))[1]
        self.assertNotIn("free", output)

    def test_a_schedule(self):
        code, found = self.csv(SCHEDULE)
        self.assertEqual((code, found["verdict"], found["least_buffers"]), (1, "hangs", 1))
        stuck = found["transports"]["pair_queue"]["stuck"]
        self.assertEqual([(one["rank"], one["at"]) for one in stuck], [(0, "0B0"), (1, "1F1")])
        self.assertEqual(found["live_microbatches"], [2, 1])
        code, found = self.csv(SCHEDULE, "--transport", "nonblocking")
        self.assertEqual((code, found["verdict"]), (0, "free"))
        text = self.shardlab("prove", "s.csv")[1]
        self.assertLessEqual(text.count("\n"), 12)
        self.assertIn("0SEND_F1 -> 1  stands before 0RECV_B0", text)

    def test_computations_alone_are_lowered(self):
        plain = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"
        self.assertEqual(self.csv(plain)[1]["verdict"], "free")
        self.assertEqual(self.csv(plain, "--defer")[1]["verdict"], "hangs")
        (self.folder / "s.csv").write_text(SCHEDULE, encoding="utf-8")
        code, _, errors = self.shardlab("prove", "--defer", "s.csv")
        self.assertEqual((code, "receives in their places" in errors), (2, True), errors)

    def test_cells_may_stand_in_quotes(self):
        quoted = "\n".join(",".join(f'"{cell}"' for cell in row.split(","))
                           for row in SCHEDULE.splitlines())
        plain, found = self.csv(SCHEDULE)[1], self.csv(quoted + "\r\n")[1]
        self.assertEqual(found, plain)
        self.assertEqual(self.csv('"0F0,0B0"\n')[1]["verdict"], "refused")

    def test_crossed_messages(self):
        crossed = SCHEDULE.replace("1RECV_F0,1F0", "1RECV_F1,1F1").replace("1RECV_F1,1F1,1B1",
                                                                           "1RECV_F0,1F0,1B0")
        crossed = crossed.replace("1F1,1B0,1SEND_B0,1RECV_F0,1F0,1B0,1SEND_B1",
                                  "1F1,1B1,1SEND_B1,1RECV_F0,1F0,1B0,1SEND_B0")
        code, found = self.csv(crossed)
        self.assertEqual((code, found["verdict"]), (1, "wrong_delivery"))
        self.assertIn("F1 of stage 1", found["wrong_messages"][0]["received"])

    def test_crossed_messages_of_a_program_are_no_hang(self):
        """Its run ends at the first of them: calls behind it are missing, not forgotten."""
        def proven(labels):
            self.plant(t=FRAME.format(ranks=2, dtype="f32", code='''
if rank == 0:
    for label in {}:
        dist.isend(t, 1, label=label).wait()
else:
    for label in {}:
        dist.recv(got, 0, label=label)
dist.barrier()
'''.format(*labels)))
            return self.prove("t.toml")
        code, found = proven((["F0", "F1", "F2"], ["F0", "F2", "F1"]))
        self.assertEqual((code, found["verdict"]), (1, "wrong_delivery"))
        self.assertEqual([(one["place"], one["sent"], one["received"])
                          for one in found["wrong_messages"]], [(1, "F1", "F2")])
        self.assertTrue(found["headline"].startswith("delivers wrong messages"), found["headline"])
        self.assertNotIn("transports", found)
        for same in (["F0", "F1", "F2"], ["F1", "F1", "F0"]):
            code, found = proven((same, same))
            self.assertEqual((code, found["verdict"]), (0, "free"))

    def test_refusals(self):
        for text, reason, place in (
                ("0F0,0SEND_F0,0WAIT_SEND_F0\n1F0,1B0\n", "computed before its receive is posted",
                 (1, 0)),
                (SCHEDULE.replace("0F1,", ""), "sent before it is computed", (0, 2)),
                (SCHEDULE.replace("0WAIT_SEND_F0,", ""), "send that nobody waits for", (0, 9)),
                ("0F0,0JUMP0\n", "is no action", (0, 1)),
                ("0F0\n\n", "no rank computes", None),
                ("0F0,2F0\n", "no rank computes stage 1", (0, 0)),
                ("0F0\n0F1\n", "stage 0 is rank 0's", (1, 0)),
                ("0F0\n,\n", "this rank has no action", (1, 0)),
                ("99999999F0\n", "is no action", (0, 0)),
        ):
            with self.subTest(text):
                code, found = self.csv(text)
                if place is None:
                    continue
                self.assertEqual((code, found["verdict"]), (2, "refused"))
                first = found["refused"][0]
                self.assertIn(reason, first["reason"])
                self.assertEqual((first["rank"], first["index"]), place)

    def test_options_of_another_kind_of_file_are_refused(self):
        for words, reason in ((("--mesh", "x=2", "s.csv"), "has no mesh and no settings"),
                              (("--set", "params.n=2", "s.csv"), "has no mesh and no settings"),
                              (("--defer", self.usual("head_on")), "--defer is for a pipeline")):
            (self.folder / "s.csv").write_text(SCHEDULE, encoding="utf-8")
            code, _, errors = self.shardlab("prove", *words)
            self.assertEqual(code, 2)
            self.assertIn(reason, errors)

    def test_damaged_bytes_are_printed_by_their_number(self):
        (self.folder / "s.csv").write_bytes(b"0F0,0\x1b[31mJUMP\xff\xc2\x9b0" + b"x" * 999 + b"\n")
        code, output, _ = self.shardlab("prove", "s.csv")
        self.assertEqual(code, 2)
        self.assertIn(r"0\x1b[31mJUMP\xff\xc2\x9b0xxx", output)
        self.assertLess(len(output), 300)

    def test_damaged_schedules_end_in_a_verdict(self):
        draw = random.Random(7)
        for _ in range(self.mutations):
            text = list(SCHEDULE)
            for _ in range(draw.randint(1, 8)):
                place = draw.randrange(len(text))
                text[place] = draw.choice([chr(draw.randrange(1, 127)), "", text[place] * 2, "9"])
            code, output, errors = 0, "", ""
            (self.folder / "s.csv").write_text("".join(text), encoding="utf-8")
            code, output, errors = self.shardlab("prove", "s.csv")
            self.assertIn(code, (0, 1, 2), "".join(text) + output + errors)

    def test_the_fabrics_of_a_run(self):
        code, _, errors = self.shardlab("run", "--transport", "pair_queue", self.usual("head_on"))
        self.assertEqual(code, 1)
        self.assertIn("rank 0 sends to rank 1 (line 10)", errors)
        self.fine("run", "--transport", "nonblocking", self.usual("head_on"))
        self.fine("run", "--transport", "group_queue", self.usual("two_groups"))
        code, _, errors = self.shardlab("run", "--transport", "one_queue",
                                        self.usual("two_groups"))
        self.assertIn("deadlock", errors)

    def test_a_poll_is_false_until_its_message_has_come(self):
        code = ("[mesh]\nx = 2\n[inputs]\nt = \"f32[2]\"\n[program]\ncode = '''\n"
                "a, b = t.to_local() * 1.0, torch.zeros([2])\n"
                "if rank == 0:\n    w = dist.irecv(b, 1)\n    print(w.is_completed())\n"
                "    dist.send(a, 1)\n    w.wait()\n    print(w.is_completed())\n"
                "else:\n    dist.recv(b, 0)\n    dist.send(a, 0)\n'''\n")
        output = self.fine("run", "--transport", "nonblocking", text=code)
        self.assertIn("rank 0: False\n  rank 0: True", output)
        # Without a fabric a poll waits, and here for ever.
        code, _, errors = self.shardlab("run", text=code)
        self.assertEqual(code, 1)
        self.assertIn("deadlock", errors)

    def test_what_a_poll_has_seen_to_be_complete_may_be_written(self):
        code = ("[mesh]\nx = 2\n[inputs]\nt = \"f32[2]\"\n[program]\ncode = '''\n"
                "a, b = t.to_local() * 1.0, torch.zeros([2])\n"
                "if rank == 0:\n    w = dist.irecv(b, 1)\n    dist.send(a, 1)\n"
                "    while not w.is_completed():\n        dist.send(a, 1)\n"
                "    b.zero_()\nelse:\n    dist.send(a, 0)\n    dist.recv(b, 0)\n'''\n")
        self.fine("run", "--transport", "blocking", text=code)

    def test_a_circle_of_groups_names_all_of_its_ranks(self):
        code = ("[mesh]\nx = 4\n[program]\ncode = '''\nt = torch.ones(2)\n"
                "groups = [dist.new_group([i, (i + 1) % 3]) for i in range(3)]\n"
                "if rank < 3:\n    dist.all_reduce(t, group=groups[rank])\n"
                "    dist.all_reduce(t, group=groups[(rank + 2) % 3])\n'''\n")
        self.plant(t=code)
        done, output, _ = self.shardlab("prove", "t.toml")
        self.assertEqual(done, 1)
        for rank in range(3):
            self.assertIn(f"\n  rank {rank}  waits at the wait for all_reduce", output)
        self.assertNotIn("never", output)

    def test_expected_transports(self):
        text = self.usual("head_on").read_text(encoding="utf-8")
        self.plant(good=text, bad=text.replace('"nonblocking"]', '"pair_queue"]'))
        code, output, _ = self.shardlab("test", "--junit", "j.xml", "--github", "good.toml",
                                        "bad.toml")
        self.assertEqual(code, 1)
        self.assertIn("transports: hangs where a pair has one queue", output)
        cases = xml.parse(self.folder / "j.xml").getroot().iter("testcase")
        failed = {case.get("name"): case.find("failure") is not None for case in cases}
        self.assertEqual(failed, {"good.toml": False, "bad.toml": True}, output)
        # A program that hangs without buffers, and is expected to, is proven as far as it gets.
        text = (self.scenarios / "zoo" / "both_send_first.toml").read_text(encoding="utf-8")
        self.plant(good=text + 'transports = ["buffered"]\n',
                   bad=text + 'transports = ["nonblocking"]\n')
        self.fine("test", "good.toml")
        code, output, _ = self.shardlab("test", "bad.toml")
        self.assertEqual(code, 1)
        self.assertIn("transports: hangs where no message is buffered", output)

    def test_shipped_schedules_end_on_every_fabric(self):
        for path in sorted((self.scenarios / "pipelines").glob("*.csv")):
            with self.subTest(path.name):
                asked = [word for one in ALL for word in ("--transport", one)]
                code, found = self.prove(path, *asked)
                self.assertEqual((code, found["verdict"]), (0, "free"))
                code, run = self.prove(path.with_suffix(".toml"), *asked)
                self.assertEqual((code, run["verdict"]), (0, "free"))

    def test_no_shipped_scenario_has_a_false_alarm(self):
        """Those with messages or several groups that are to end are free on the usual fabrics."""
        talk = re.compile(r"isend|irecv|\.send\(|\.recv\(|P2POp|new_group|DeviceMesh\(|get_group")
        hanging, tried = [], 0
        for path in sorted(self.scenarios.glob("*/*.toml")):
            text = path.read_text(encoding="utf-8")
            ends = not re.search(r'^verdict = "(deadlock|mismatch)"', text, re.M)
            if path.parent.name == "hangs" or not talk.search(text) or not ends:
                continue
            tried += 1
            asked = [word for one in ("nonblocking", "pair_queue", "group_queue")
                     for word in ("--transport", one)]
            output = self.shardlab("prove", "--json", *asked, path)[1]
            hanging += [path.stem for line in output.splitlines()
                        if json.loads(line)["verdict"] == "hangs"]
        self.assertGreater(tried, 20)
        self.assertEqual(hanging, [])

    def test_live_microbatches(self):
        for name, wanted in (("gpipe", [8, 8, 8, 8]), ("one_forward_one_backward", [4, 3, 2, 1])):
            found = self.prove(self.scenarios / "pipelines" / f"{name}.csv")[1]
            self.assertEqual(found["live_microbatches"], wanted)
            path = self.scenarios / "pipelines" / f"{name}.toml"
            run = json.loads(self.shardlab("run", "--json", path)[1])
            self.assertEqual(run["live_microbatches"], wanted)
            text = self.shardlab("run", path)[1]
            self.assertIn("live microbatches by rank: " + " ".join(map(str, wanted)), text)

    def test_a_crossed_schedule_fails_when_it_runs(self):
        folder = self.scenarios / "pipelines"
        text = (folder / "gpipe.toml").read_text(encoding="utf-8")
        self.plant(gpipe=text)
        for name in ("pipeline.py", "gpipe.csv"):
            (self.folder / name).write_text((folder / name).read_text(encoding="utf-8"),
                                            encoding="utf-8")
        self.fine("run", "gpipe.toml")
        crossed = ("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0WAIT_SEND_F0,"
                   "0WAIT_SEND_F1\n1RECV_F1,1F1,1RECV_F0,1F0,1B0,1SEND_B0,1B1,1SEND_B1,"
                   "1WAIT_SEND_B0,1WAIT_SEND_B1\n")
        (self.folder / "gpipe.csv").write_text(crossed, encoding="utf-8")
        code, _, errors = self.shardlab("run", "--set", "mesh.pp=2", "--set", "params.stages=2",
                                        "--set", "params.micro=2", "--", "gpipe.toml")
        self.assertEqual(code, 1)
        self.assertIn("wrong message: rank 1 receives F1 of stage 1, rank 0 sent F0 of stage 1",
                      errors)


if __name__ == "__main__":
    Prove.scenarios = pathlib.Path(sys.argv[2]).resolve()
    if "--mutations" in sys.argv:
        Prove.mutations = int(sys.argv[sys.argv.index("--mutations") + 1])
    os.environ.pop("SHARDLAB_PATIENCE", None)
    unittest.main(argv=sys.argv[:1])
