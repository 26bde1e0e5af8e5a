#!/usr/bin/env python3
"""`shardlab test` and the replay of a failure, as their users see them.

    test_command_test.py PROGRAM SCENARIOS
"""

import pathlib
import json
import shlex
import shutil
import subprocess
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

UNMET = """
[mesh]
x = 2
[inputs]
a = "f32[7@x]"
[program]
code = '''
y = a + 1
'''
[expect]
y = "f32[7]"
"""

PIECE = """
[mesh]
x = 2
[inputs]
a = "f32[7@x]"
[program]
code = '''
piece = a.to_local() * rank
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
        """Runs the command of the line `again: shardlab ...`."""
        (command,) = [line.strip() for line in output.splitlines() if "again: " in line]
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

    def test_a_line_a_file_and_what_failed_at_the_end(self):
        self.plant(a=FINE, b=BROKEN, c=UNREADABLE, d=UNMET)
        code, output, errors = self.shardlab("test", ".")
        self.assertEqual(code, 2)
        lines = output.splitlines()
        self.assertEqual([(line[:7], line[7:].split("  ")[0]) for line in lines[:5]], [
            ("ok     ", "./a.toml"), ("FAILED ", "./b.toml [rows=3]"),
            ("FAILED ", "./b.toml [rows=4]"), ("FAILED ", "./c.toml"), ("FAILED ", "./d.toml")])
        self.assertEqual(lines[5:7], ["", "failed"])
        self.assertEqual(lines[-2:], ["", "1 passed, 4 failed"])
        self.assertIn("  ./d.toml\n      y: expected f32[7], got f32[7@x]\n", output)
        self.assertIn("      again: shardlab run ./b.toml --set params.rows=4 --seed 0\n", output)
        self.assertIn("./c.toml:1", errors)
        self.assertNotIn("values against the single-device run", output)
        code, output, errors = self.shardlab("test", "--verbose", ".")
        self.assertIn("values against the single-device run", output)
        self.assertIn("at          rank 1, step 0, ./b.toml:", errors)

    def test_names_of_shipped_scenarios(self):
        for name in ("models/megatron_mlp", "models/megatron_mlp.toml", "megatron_mlp"):
            self.assertIn("models/megatron_mlp.toml  8 ranks", self.fine("run", "--summary", name))
        code, _, errors = self.shardlab("run", "gpipe")  # of models and of pipelines
        self.assertEqual(code, 2)
        self.assertIn("say which one: models/gpipe, pipelines/gpipe", errors)
        self.plant(**{"megatron_mlp": FINE})
        self.assertIn("megatron_mlp.toml  2 ranks", self.fine("run", "--summary", "megatron_mlp"))
        (self.folder / "megatron_mlp.toml").unlink()
        folder = pathlib.Path(SCENARIOS, "models")
        output = self.fine("test", "models")
        for path in folder.glob("*.toml"):
            self.assertIn(f"ok     {path}", output)
        self.assertEqual(output, self.fine("test", str(folder)))
        code, _, errors = self.shardlab("run", "models/no_such")
        self.assertEqual(code, 2)
        self.assertIn("models/no_such: no such file, and no scenario of that name is shipped",
                      errors)
        for name in ("megatron_mlq", "models/megatron_ml"):
            code, _, errors = self.shardlab("run", name)
            self.assertEqual(code, 2)
            self.assertRegex(errors, r"fix +did you mean '(models/)?megatron_mlp'\?")
        every = self.fine("test", "--list")
        self.assertEqual(every, self.fine("test", "--list", "scenarios"))
        self.assertIn("models/megatron_mlp", every)
        self.plant(a=FINE)
        self.assertIn("ok     a.toml", self.fine("run", "a"))

    def test_again_is_printed_where_it_adds_something(self):
        self.plant(b=BROKEN, d=UNMET)
        self.assertNotIn("again:", self.shardlab("run", "d.toml")[1])
        self.assertIn("again: shardlab run b.toml --set params.rows=4",
                      self.shardlab("run", "b.toml")[1])

    def completed(self, *words):
        """Completions that bash offers for the last of these words."""
        (self.folder / "shardlab.bash").write_text(self.fine("completion", "bash"), "utf-8")
        typed = " ".join(shlex.quote(word) for word in ("shardlab", *words))
        script = (f"source ./shardlab.bash; COMP_WORDS=({typed}); COMP_CWORD={len(words)}; "
                  "_shardlab; printf '%s\\n' \"${COMPREPLY[@]}\"")
        done = subprocess.run(["bash", "-c", script], cwd=self.folder, capture_output=True,
                              encoding="utf-8", check=True)
        return done.stdout.split()

    def test_shells_complete_commands_options_and_files(self):
        self.plant(apple=FINE)
        self.assertEqual(self.completed("d"), ["diff", "doctor"])
        self.assertEqual(self.completed("run", "--sch"), ["--scheduler"])
        self.assertEqual(sorted(self.completed("test", "--sch")), ["--scheduler", "--schedules"])
        self.assertEqual(self.completed("run", "app"), ["apple.toml"])
        for shell in ("zsh", "fish"):
            script = self.fine("completion", shell)
            for word in ("doctor", "schedules", "backend"):
                self.assertIn(word, script)
            if shutil.which(shell):
                (self.folder / "script").write_text(script, "utf-8")
                subprocess.run([shell, "-n", "script"], cwd=self.folder, check=True)
        code, output, errors = self.shardlab("completion", "csh")
        self.assertEqual((code, output), (2, ""))
        self.assertIn("one of: bash, zsh, fish", errors)

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
        counts = {one.get("name"): one.get("value")
                  for one in cases["./a.toml"].find("properties")}
        self.assertEqual(len(cases["./a.toml"]), 1)
        self.assertEqual(counts, {"verified": "0", "left_as_terms": "0", "on_the_way": "0",
                                  "no_counterpart": "1", "differs": "0", "not_compared": "0",
                                  "wrong": "0", "not_verified": "1"})
        failure = cases["./b.toml [rows=4]"].find("failure")
        self.assertIn("1 < 2 & 'quoted' \"twice\" größer plain 4", failure.get("message"))
        self.assertIn("again: shardlab run ./b.toml --set params.rows=4", failure.text)
        self.assertIn("at          rank 1, step 0, ./b.toml:", failure.text)
        self.assertIn("./c.toml:1", cases["./c.toml"].find("error").text)
        times = [float(case.get("time")) for case in cases.values()]
        self.assertTrue(all(time >= 0 for time in times) and sum(times) > 0)
        self.assertAlmostEqual(float(root.get("time")), sum(times), delta=0.01)
        self.assertIn("mismatch", cases["./e.toml"].find("failure").get("message"))

    def test_strict_wants_every_value_verified(self):
        self.plant(a=PIECE, b=PIECE.replace("piece = a.to_local() * rank", "y = a * 2"))
        for command in ("test", "run"):
            self.assertEqual(self.shardlab(command, "a.toml", "b.toml")[0], 0)
            self.assertEqual(self.shardlab(command, "--strict", "b.toml")[0], 0)
            code, output, _ = self.shardlab(command, "--strict", "a.toml")
            self.assertEqual(code, 1)
            self.assertIn("--strict", output)
            self.assertIn("expected 0, got 1: piece (a.toml:8:1) differs: ranks 0 and 1", output)
            code, _, error = self.shardlab(command, "--strict", "--backend", "fake", "b.toml")
            self.assertEqual(code, 2)
            self.assertIn("backend fake computes shapes only, so nothing is verified", error)

    def test_what_strict_refuses_is_run_again_with_it_and_has_no_wrong_line(self):
        self.plant(a=PIECE, b=PIECE.replace("piece = a.to_local() * rank",
                                            "piece = a.to_local()\ns = piece.sum()"))
        for name in ("a", "b"):
            output = self.shardlab("test", "--strict", f"{name}.toml")[1]
            again = output.split("again: shardlab ")[1].split("\n")[0].split()
            self.assertEqual(self.shardlab(*again)[0], 1, again)
            self.assertEqual(self.shardlab(*(word for word in again if word != "--strict"))[0], 0)
            self.assertNotIn("shardlab blame", self.shardlab("run", "--strict", f"{name}.toml")[1])

    def test_a_setting_is_one_word_and_files_follow_it(self):
        self.plant(a=PIECE, b=PIECE)
        for command in ("test", "run"):
            code, output, errors = self.shardlab(command, "--set", "seed=7", "a.toml", "b.toml")
            self.assertEqual((code, errors), (0, ""))
            self.assertEqual(output.count("2 ranks, "), 2, output)

    def test_what_needs_values_is_skipped_where_there_are_none(self):
        shapes = FINE.replace(".sum().item()", ".shape")
        self.plant(a=shapes, b=FINE)
        code, output, _ = self.shardlab("test", "--backend", "fake", "a.toml", "b.toml")
        self.assertEqual(code, 0, output)
        self.assertIn("skip   b.toml  needs values, which shapes alone do not have\n", output)
        self.assertTrue(output.endswith("1 passed, 0 failed, 1 skipped\n"), output)
        code, output, _ = self.shardlab("test", "--backend", "fake")
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"\d+ passed, 0 failed, \d+ skipped\n$")

    def test_junit_that_cannot_be_written_is_an_error(self):
        self.plant(a=FINE)
        code, _, error = self.shardlab("test", "--junit", "no/such/folder.xml", "a.toml")
        self.assertEqual(code, 2)
        self.assertIn("no/such/folder.xml cannot be written", error)

    def test_every_schedule_is_tried_and_the_first_failing_one_replays(self):
        self.plant(a=FINE, e=MISMATCH)
        code, output, _ = self.shardlab("test", "--schedules", "20", "a.toml")
        self.assertEqual(code, 0)
        self.assertIn(", 20 schedules (a failure by one change of order shows in one with chance 0",
                      output)
        code, output, error = self.shardlab("test", "--schedules", "20", "--seed", "7", "e.toml")
        self.assertEqual((code, error), (1, ""))
        self.assertIn("--scheduler seeded --seed 7\n", output)
        code, run, error = self.replay(output)
        self.assertEqual(code, 1)
        self.assertIn("seeded scheduler (7)", run)
        # The whole report is that of the replay, which need not print the command to run it again.
        verbose = self.shardlab("test", "-v", "--schedules", "20", "--seed", "7", "e.toml")
        again = "again: shardlab run e.toml --scheduler seeded --seed 7\n\n"
        report, _, _ = verbose[1].partition("\nfailed\n")
        self.assertEqual((report.replace(again, ""), verbose[2]), (run, error))

    def test_the_replay_keeps_what_the_user_set(self):
        self.plant(b=BROKEN)
        chosen = ("--set", "note=it's $HOME", "--set", "mesh.x=3", "--set", "seed=5")
        run = ("run", "--scheduler", "seeded", "--seed", "11", *chosen, "--set", "rows=2", "b.toml")
        code, output, error = self.shardlab(*run)
        self.assertEqual(code, 1)
        self.assertIn("größer it's $HOME 2", error)
        # The report of a run that was typed leaves the command out, JSON has it.
        self.assertNotIn("again:", output)
        again = json.loads(self.shardlab(*run[:-1], "--json", run[-1])[1])["again"]
        self.assertEqual(self.replay(f"again: {again}"), (1, output, error))

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


class Github(Program):
    WRONG = """
[mesh]
x = 2
[inputs]
a = "f32[4@x]"
[program]
code = '''
p = a.to_local().sum()
y = p * 2
'''
[expect]
y = "f32[4]"
"""

    def test_annotations_of_what_failed(self):
        self.plant(fine=FINE, unmet=UNMET, wrong=self.WRONG)
        (self.folder / "odd,name.toml").write_text("[mesh\n", encoding="utf-8")
        code, out, _ = self.shardlab("test", "--github", "fine.toml", "unmet.toml", "wrong.toml",
                                     "odd,name.toml")
        self.assertEqual(code, 2)
        notes = [line for line in out.splitlines() if line.startswith("::error ")]
        self.assertEqual(len(notes), 3, out)
        # The line of the expectation; the line of the first wrong value; a whole refusal in one.
        self.assertTrue(notes[0].startswith(
            "::error file=unmet.toml,line=11,title=unmet.toml::y: expected f32[7], got f32[7@x]"),
            notes[0])
        self.assertIn("::error file=wrong.toml,line=", notes[1])
        self.assertTrue(notes[2].startswith("::error file=odd%2Cname.toml,title=odd%2Cname.toml::"),
                        notes[2])
        self.assertIn("%0A", notes[2])

    def test_no_annotations_without_failures(self):
        self.assertNotIn("::error", self.fine("test", "--github", text=FINE))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
