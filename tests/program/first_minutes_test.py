#!/usr/bin/env python3
"""The first commands of a new user: `shardlab new`, `run -`, `run --watch`, a misspelt option.

    first_minutes_test.py PROGRAM
"""

import os
import pathlib
import pty
import re
import signal
import subprocess
import time
import unittest

from program import PROGRAM, Program

KINDS = ["fsdp", "local", "mlp", "moe", "pipeline", "tp"]
ENVIRONMENT = {**os.environ, "NO_COLOR": "1"}


class New(Program):
    def test_each_kind_is_written_and_runs(self):
        for kind in KINDS:
            out = self.fine("new", f"{kind}.toml")
            self.assertIn(f"shardlab run {kind}.toml", out)
            text = (self.folder / f"{kind}.toml").read_text(encoding="utf-8")
            self.assertTrue(text.startswith("# "), "it begins with what it is")
            self.assertIn("verified", self.fine("run", "--summary", f"{kind}.toml"))
            # The commands that the comments give are true, too.
            for line in text.splitlines():
                if line.startswith("#   shardlab "):
                    self.fine(*line.removeprefix("#   shardlab ").split("  ")[0].split())

    def test_what_the_guide_tries_next_is_as_it_says(self):
        guide = pathlib.Path(__file__).resolve().parents[2] / "scenarios/guide.md"
        rows = re.findall(r"^\| `(\w+)\.toml` \|.*\| (.*) \|$", guide.read_text("utf-8"), re.M)
        self.assertEqual(sorted(kind for kind, _ in rows), KINDS)
        for kind, tried in rows:
            self.fine("new", f"{kind}.toml")
            options = re.match(r"`(-.*?)`: ", tried)
            if options:
                self.fine("run", *options[1].split(), f"{kind}.toml")
                continue
            line = re.fullmatch(r"the file without its `(\w+)` line", tried)[1]
            kept = (self.folder / f"{kind}.toml").read_text("utf-8").splitlines()
            self.plant(other="\n".join(row for row in kept if f"dist.{line}" not in row))
            self.assertEqual(self.shardlab("run", "other.toml")[0], 1)

    def test_kinds_are_listed(self):
        out = self.fine("new")
        self.assertEqual([line.split()[0] for line in out.splitlines()], KINDS)

    def test_another_name(self):
        self.fine("new", "--kind", "moe", "experts.toml")
        self.assertIn("experts.toml", self.fine("run", "--summary", "experts.toml"))

    def test_refusals(self):
        code, _, err = self.shardlab("new", "mine.toml")
        self.assertEqual(code, 2)
        self.assertIn("'mine'", err)
        self.assertIn("fsdp, local, mlp, moe, pipeline, tp", err)
        self.plant(tp="mine")
        code, _, err = self.shardlab("new", "tp.toml")
        self.assertEqual((code, (self.folder / "tp.toml").read_text()), (2, "mine"))
        self.assertIn("exists", err)
        code, _, err = self.shardlab("new", "nowhere/tp.toml")
        self.assertEqual(code, 2)
        self.assertIn("nowhere", err)


class NarrowTerminal(Program):
    def shown(self, columns, *arguments):
        """The lines on a terminal of as many columns."""
        here, there = pty.openpty()
        with subprocess.Popen([PROGRAM, *arguments], cwd=self.folder, stdout=there,
                              env={**ENVIRONMENT, "COLUMNS": str(columns)}) as process:
            os.close(there)
            text = b""
            while True:
                try:
                    block = os.read(here, 65536)
                except OSError:  # its other end is closed
                    break
                if not block:
                    break
                text += block
            self.assertEqual(process.wait(), 0)
        os.close(here)
        return text.decode().replace("\r", "").splitlines()

    def test_lines_are_folded_at_blanks_and_nothing_is_lost(self):
        for kind in ("tp", "moe"):
            self.fine("new", f"{kind}.toml")
            for options in ((), ("--log",)):
                plain = self.fine("run", *options, f"{kind}.toml")
                self.assertGreater(max(map(len, plain.splitlines())), 60)
                shown = self.shown(60, "run", *options, f"{kind}.toml")
                self.assertLessEqual(max(map(len, shown)), 60)
                # Tables are laid out for 76 columns at least, and folded below.
                least = self.shown(76, "run", *options, f"{kind}.toml")
                self.assertEqual(" ".join(shown).split(), " ".join(least).split())
                self.assertEqual(self.shown(100, "run", *options, f"{kind}.toml"),
                                 plain.splitlines())


class StandardInput(Program):
    def run_text(self, text, *options):
        return subprocess.run([PROGRAM, "run", "-", *options], input=text, cwd=self.folder,
                              env=ENVIRONMENT, capture_output=True, encoding="utf-8", timeout=60,
                              check=False)

    def test_a_program_from_standard_input(self):
        self.fine("new", "tp.toml")
        text = (self.folder / "tp.toml").read_text(encoding="utf-8")
        done = self.run_text(text, "--summary")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("ok     -  4 ranks", done.stdout)

    def test_errors_have_a_place(self):
        done = self.run_text("[mesh]\nx = ]\n")
        self.assertEqual(done.returncode, 2)
        self.assertIn("at          -:2:5", done.stderr)
        self.assertEqual(self.run_text("").returncode, 2)


class Watch(Program):
    def until(self, path, count):
        """Waits until the output has this many endings of runs."""
        for _ in range(300):
            text = path.read_text(encoding="utf-8")
            if text.count("waiting for a change") >= count:
                return text
            time.sleep(0.1)
        self.fail(f"{count} runs were waited for:\n{text}")

    def test_it_runs_again_when_the_file_changes(self):
        self.fine("new", "tp.toml")
        out = self.folder / "out.txt"  # next to the scenario, and no reason to run again
        scenario = self.folder / "tp.toml"
        with open(out, "wb") as file:
            process = subprocess.Popen([PROGRAM, "run", "--watch", "--summary", "tp.toml"],
                                       cwd=self.folder, env=ENVIRONMENT, stdout=file,
                                       stderr=subprocess.STDOUT)
        self.addCleanup(process.kill)
        self.until(out, 1)
        time.sleep(0.5)
        text = scenario.read_text(encoding="utf-8")
        scenario.write_text(text.replace("gelu", "gelo"), encoding="utf-8")
        self.assertIn("did you mean 'gelu'?", self.until(out, 2))
        scenario.write_text(text, encoding="utf-8")
        text = self.until(out, 3)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=30), 130)
        self.assertEqual(text.count("ok     tp.toml"), 2)
        self.assertEqual(text.count("waiting for a change"), 3)

    def test_standard_input_does_not_change(self):
        code, _, err = self.shardlab("run", "--watch", "-")
        self.assertEqual(code, 2)
        self.assertIn("standard input", err)


class Options(Program):
    def test_the_nearest_option(self):
        for words, near in [(("run", "--wath", "t.toml"), "--watch"),
                            (("test", "--jnit=x.xml"), "--junit"),
                            (("verify-ops", "mm", "--placing", "4"), "--placings")]:
            code, _, err = self.shardlab(*words)
            self.assertEqual(code, 2)
            self.assertIn(f"did you mean '{near}'?", err)

    def test_the_python_of_a_recording_is_named_anywhere_before_the_script(self):
        for words in (["--python", "/no/python", "train.py"],
                      ["--ranks", "2", "--processes", "--python", "/no/python", "train.py"],
                      ["--out", "x.json.gz", "--python=/no/python", "train.py", "--python", "p"]):
            code, _, errors = self.shardlab("record", *words)
            self.assertEqual(code, 2)
            self.assertIn("/no/python cannot be started", errors)


if __name__ == "__main__":
    unittest.main(argv=[str(pathlib.Path(__file__).name)])
