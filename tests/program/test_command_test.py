#!/usr/bin/env python3
"""`shardlab test` and the replay of what failed, as their users see them.

    test_command_test.py PROGRAM SCENARIOS
"""

import pathlib
import shlex
import sys
import unittest
import xml.etree.ElementTree

from program import Program

SCENARIOS = str(pathlib.Path(sys.argv[2]).resolve())

FINE = """
title = "Fine"
[mesh]
x = 2
[program]
code = '''
print("sum", all_reduce(randn([3]), "sum").sum().item())
'''
"""
# Fails with signs that XML and shells read in their own way.
BROKEN = """
[mesh]
x = 2
[params]
note = "plain"
rows = 0
[matrix]
rows = [3, 4]
[program]
code = '''
assert rank < 1, f"1 < 2 & 'quoted' \\"twice\\" größer {note} {rows}"
'''
"""

UNREADABLE = "[mesh\n"
MISMATCH = """
[mesh]
x = 4
[program]
code = '''
t = ones([2])
t = all_reduce(t, "sum") if rank == 2 else all_gather(t, 0)
'''
"""


class TestCommand(Program):
    def replay(self, output):
        """Runs what the line `again: shardlab ...` says."""
        (command,) = [line for line in output.splitlines() if line.startswith("again: ")]
        words = shlex.split(command.removeprefix("again: "))
        self.assertEqual(words[0], "shardlab")
        return self.shardlab(*words[1:])

    def test_several_at_once_print_what_one_after_the_other_prints(self):
        self.plant(a=FINE, b=BROKEN, c=UNREADABLE, d=FINE, e=MISMATCH)
        one = self.shardlab("test", "--jobs", "1", ".", SCENARIOS)
        many = self.shardlab("test", "--jobs", "5", ".", SCENARIOS)
        self.assertEqual(one, many)
        self.assertEqual(one[0], 2)  # a file that cannot be read
        self.assertIn(" passed, 4 failed\n", one[1])
        self.assertEqual(self.shardlab("test", "--jobs", "3", "a.toml")[0], 0)

    def test_junit_parses_and_says_what_failed(self):
        self.plant(a=FINE, b=BROKEN, c=UNREADABLE, e=MISMATCH)
        code, _, _ = self.shardlab("test", "--junit", "results.xml", "--jobs", "2", ".")
        self.assertEqual(code, 2)
        root = xml.etree.ElementTree.parse(self.folder / "results.xml").getroot()
        self.assertEqual(root.tag, "testsuites")
        self.assertEqual(root.get("tests"), "5")
        self.assertEqual(root.get("failures"), "3")
        self.assertEqual(root.get("errors"), "1")
        cases = {case.get("name"): case for case in root.iter("testcase")}
        self.assertEqual(
            list(cases),
            ["./a.toml", "./b.toml [rows=3]", "./b.toml [rows=4]", "./c.toml", "./e.toml"],
        )
        self.assertEqual(len(cases["./a.toml"]), 0)
        failure = cases["./b.toml [rows=4]"].find("failure")
        self.assertIn("1 < 2 & 'quoted' \"twice\" größer plain 4", failure.get("message"))
        self.assertIn("again: shardlab run ./b.toml --set params.rows=4", failure.text)
        self.assertIn("at          rank 1, step 0, ./b.toml:", failure.text)
        self.assertIn("./c.toml:1", cases["./c.toml"].find("error").text)
        self.assertIn("mismatch", cases["./e.toml"].find("failure").get("message"))

    def test_junit_that_cannot_be_written_is_an_error(self):
        self.plant(a=FINE)
        code, _, error = self.shardlab("test", "--junit", "no/such/folder.xml", "a.toml")
        self.assertEqual(code, 2)
        self.assertIn("no/such/folder.xml cannot be written", error)

    def test_every_schedule_is_tried_and_the_first_failing_one_replays(self):
        self.plant(a=FINE, e=MISMATCH)
        code, output, _ = self.shardlab("test", "--schedules", "20", "a.toml")
        self.assertEqual(code, 0)
        self.assertIn(", 20 schedules\n", output)
        code, output, error = self.shardlab("test", "--schedules", "20", "--seed", "7", "e.toml")
        self.assertEqual(code, 1)
        self.assertIn("seeded scheduler (7)", output)
        self.assertIn("--scheduler seeded --seed 7\n", output)
        run = output.removesuffix("0 passed, 1 failed\n")
        self.assertEqual(self.replay(output), (1, run, error))

    def test_the_replay_keeps_what_the_user_set(self):
        self.plant(b=BROKEN)
        chosen = ("--set", "note=it's $HOME", "--set", "mesh.x=3", "--set", "seed=5")
        code, output, error = self.shardlab(
            "run", "--scheduler", "seeded", "--seed", "11", *chosen, "--set", "rows=2", "b.toml"
        )
        self.assertEqual(code, 1)
        self.assertIn("größer it's $HOME 2", error)
        self.assertEqual(self.replay(output), (1, output, error))

    def test_values_do_not_depend_on_the_seed_of_the_schedule(self):
        self.plant(a=FINE)

        def printed(*arguments):
            code, output, _ = self.shardlab("run", *arguments, "a.toml")
            self.assertEqual(code, 0)
            (line,) = [line for line in output.splitlines() if line.startswith("  sum")]
            return line

        default = printed()
        for seed in ("0", "1", "2"):
            self.assertEqual(printed("--scheduler", "seeded", "--seed", seed), default)
        other = printed("--seed", "5")
        self.assertNotEqual(other, default)
        self.assertEqual(printed("--scheduler", "seeded", "--seed", "1", "--set", "seed=5"), other)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
