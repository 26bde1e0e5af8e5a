#!/usr/bin/env python3
"""shardlab prove: which programs can hang, on which fabric.

    prove_test.py PROGRAM SCENARIOS [--mutations COUNT]

The verdicts of the counterexamples are written by hand: they are those of the page
scenarios/hangs.md.
"""

import json
import os
import pathlib
import random
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

    def test_recordings_of_several_ranks(self):
        """Those with messages do not say where a rank waits for a send: C5 is named."""
        folder = self.scenarios.parent / "tests/golden/recordings/ranks"
        code, found = self.prove(folder / "fsdp_2__2.15.0.json.gz")
        self.assertEqual((code, found["verdict"]), (0, "free"))
        code, found = self.prove(folder / "chain_3__2.15.0.json.gz")
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

    def test_crossed_messages(self):
        crossed = SCHEDULE.replace("1RECV_F0,1F0", "1RECV_F1,1F1").replace("1RECV_F1,1F1,1B1",
                                                                           "1RECV_F0,1F0,1B0")
        crossed = crossed.replace("1F1,1B0,1SEND_B0,1RECV_F0,1F0,1B0,1SEND_B1",
                                  "1F1,1B1,1SEND_B1,1RECV_F0,1F0,1B0,1SEND_B0")
        code, found = self.csv(crossed)
        self.assertEqual((code, found["verdict"]), (1, "wrong_delivery"))
        self.assertIn("F1 of stage 1", found["wrong_messages"][0]["received"])

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
