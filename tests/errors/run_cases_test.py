#!/usr/bin/env python3
"""run_cases.py fails when a message, an exit code or a case itself is not as it must be."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

RUNNER = pathlib.Path(__file__).resolve().parent / "run_cases.py"

# In place of shardlab: prints its arguments, and the file's path as a user would see it.
PROGRAM = """#!/bin/sh
echo "error: $*" >&2
echo "  at $PWD/$2" >&2
exit 2
"""


class RunCases(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name).resolve()
        self.cases = self.folder / "cases"
        self.cases.mkdir()
        self.program = self.folder / "program"
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)

    def plant(self, **files):
        for name, text in files.items():
            stem, _, suffix = name.rpartition("_")
            (self.cases / f"{stem}.{suffix}").write_text(text)

    def run_cases(self, *arguments):
        done = subprocess.run(
            [sys.executable, RUNNER, self.program, "--cases", self.cases, *arguments],
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        return done.returncode, done.stdout

    def test_the_right_text_passes(self):
        self.plant(a_toml="", a_txt="exit 2\nerror: run a.toml\n  at a.toml\n")
        self.assertEqual(self.run_cases(), (0, "ok     a\n1 passed, 0 failed\n"))

    def test_another_command(self):
        self.plant(b_txt='exit 2: show "f32[3" -m\nerror: show f32[3 -m\n  at f32[3\n')
        self.assertEqual(self.run_cases(), (0, "ok     b\n1 passed, 0 failed\n"))

    def test_a_wrong_text_fails(self):
        self.plant(a_toml="", a_txt="exit 2\nerror: run a.toml\n  at b.toml\n")
        code, output = self.run_cases()
        self.assertEqual(code, 1)
        self.assertIn("-  at b.toml\n+  at a.toml\n0 passed, 1 failed\n", output)

    def test_a_wrong_exit_code_fails(self):
        self.plant(a_toml="", a_txt="exit 1\nerror: run a.toml\n  at a.toml\n")
        code, output = self.run_cases()
        self.assertEqual(code, 1)
        self.assertIn("exit code 2, expected 1\n", output)

    def test_a_case_without_its_text_fails(self):
        self.plant(a_toml="")
        code, output = self.run_cases()
        self.assertEqual(code, 1)
        self.assertIn("a.txt does not begin with a line `exit N`", output)

    def test_no_case_at_all_fails(self):
        self.assertEqual(self.run_cases(), (1, "0 passed, 0 failed\n"))

    def test_more_arguments_reach_every_command(self):
        self.plant(a_toml="", a_txt="exit 2\nerror: run a.toml -s x\n  at a.toml\n")
        self.assertEqual(self.run_cases("--more", "-s x"), (0, "ok     a\n1 passed, 0 failed\n"))
        self.assertEqual(self.run_cases()[0], 1)

    def test_write_records_what_the_program_says(self):
        self.plant(a_toml="")
        self.assertEqual(self.run_cases("--write", "a")[0], 0)
        expected = "exit 2\nerror: run a.toml\n  at a.toml\n"
        self.assertEqual((self.cases / "a.txt").read_text(), expected)


if __name__ == "__main__":
    unittest.main()
