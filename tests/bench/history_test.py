#!/usr/bin/env python3
"""history.py names a fall of 15 % and no fall of 5 %, and compares like with like."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

import history  # noqa: E402

HEADER = "machine\trevision\tbenchmark\tmedian\tunit\n"
VERDICTS = (
    "broken programs of tests/verdicts, us".ljust(66) + "               pool              seeded\n"
    + "case".ljust(66) + "              1/2/3               4/5/6\n"
    + "on many ranks, us".ljust(66) + "               pool           pool of 3\n"
    + "deadlock, 64 ranks".ljust(66) + "          20/30/400                   -\n"
)


def of_google(**times):
    """Output of Google Benchmark: three repetitions and their statistics."""
    runs = []
    for name, (cpu, real) in times.items():
        name = name.replace("__", "/")
        for factor in (1, 0.5, 3):
            runs.append({"name": name, "run_name": name, "run_type": "iteration",
                         "cpu_time": factor * cpu, "real_time": factor * real, "time_unit": "us"})
        runs.append({"name": name + "_mean", "run_name": name, "run_type": "aggregate",
                     "cpu_time": 9e9, "real_time": 9e9, "time_unit": "us"})
    return {"benchmarks": runs}


class History(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.file = self.folder / "history.tsv"
        self.machine = history.machine()

    def record(self, *words, **times):
        output = self.folder / "output.json"
        output.write_text(json.dumps(of_google(**times)), encoding="utf-8")
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = history.main([*words, "--history", str(self.file), "--read", str(output)])
        return code, said.getvalue()

    def test_a_fall_of_15_percent_is_named_and_one_of_5_is_not(self):
        self.assertEqual(self.record(add=(100, 1), mul=(100, 1))[0], 0)
        code, said = self.record(add=(105, 1), mul=(115, 1))
        self.assertEqual(code, 1)
        self.assertRegex(said, r"\nmul: 100 us at \S+, now 115 us: \+15%\n")
        self.assertNotIn("add:", said)

    def test_the_last_row_of_the_same_machine_counts(self):
        rows = [(self.machine, "100"), (self.machine, "200"), ("a slow one, 1 cores", "10")]
        text = "".join(f"{machine}\tabc\tadd\t{median}\tns\n" for machine, median in rows)
        self.file.write_text(HEADER + text, encoding="utf-8")
        self.assertEqual(self.record(add=(0.215, 1))[0], 0)
        self.assertEqual(self.record(add=(0.25, 1))[0], 1)
        self.assertEqual(len(self.file.read_text(encoding="utf-8").splitlines()), 6)

    def test_wall_time_where_the_benchmark_keeps_its_own(self):
        self.record(add=(7, 9), mlp__ranks_8__manual_time=(7, 9))
        medians = [row["median"] for row in history.read_history(self.file)]
        self.assertEqual(medians, ["7", "9"])

    def test_a_dry_run_writes_nothing_and_a_filter_leaves_out(self):
        self.assertEqual(self.record("--dry-run", add=(1, 1))[0], 0)
        self.assertFalse(self.file.exists())
        self.assertEqual(self.record("--filter", "^m", add=(1, 1))[0], 2)
        self.assertFalse(self.file.exists())

    def test_the_table_of_verdicts(self):
        rows = history.medians_of_verdicts(VERDICTS)
        self.assertEqual(rows, [("deadlock, 64 ranks, pool", 30.0, "us")])


if __name__ == "__main__":
    unittest.main()
