#!/usr/bin/env python3
"""A lost part is no verdict in any form: `test` and JUnit, --json, `diff`, `replay`; commands that
judge a program by many runs refuse ranks that are processes, once.

usage: lost_part_test.py FAULTY NCCL_DOUBLE
"""

import json
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.dont_write_bytecode = True

import ranks  # noqa: E402
from faults_test import RANKS, SCENARIO, Process  # noqa: E402
from job import ENVIRONMENT, TIMEOUT, output  # noqa: E402

FAULTY, DOUBLE = "", ""
LOST = "rank 2 was lost before its values arrived"
FAILED = "rank 2 failed: its process ended"


class LostPart(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.long = self.folder / "long.toml"
        self.other = self.folder / "other.toml"
        for path in (self.long, self.other):
            path.write_text(SCENARIO, encoding="utf-8")

    def job(self, fault, *words):
        """(exit codes of the ranks that are left, what each has written)"""
        port = ranks.free_port()
        processes = []
        for rank in range(RANKS):
            told = ranks.variables("torchrun", rank, RANKS, port)
            environment = ENVIRONMENT | {
                "SHARDLAB_PATIENCE": "5", "SHARDLAB_JOIN_SECONDS": "20",
                "SHARDLAB_NCCL_LIBRARY": DOUBLE, "SHARDLAB_FAULT": fault,
            } | {key: str(value) for key, value in told.items()}
            processes.append(Process([FAULTY, *map(str, words), "--backend", "nccl"], environment,
                                     self.folder, f"rank_{rank}"))
        codes = [process.process.wait(TIMEOUT) for process in processes]
        texts = [process.text() for process in processes]
        lost = fault.split()[0]
        return ({code for rank, code in enumerate(codes) if str(rank) != lost},
                [text for rank, text in enumerate(texts) if str(rank) != lost])

    def errors(self, texts):
        return "".join(texts).count("error: ")

    def test_junit_has_errors_and_no_failures(self):
        for stage, code, told in (("gather", 2, LOST), ("run", 4, FAILED)):
            with self.subTest(stage):
                report = self.folder / f"{stage}.xml"
                codes, texts = self.job(f"2 {stage} kill", "test", "--junit", report, self.long,
                                        self.other)
                self.assertEqual(codes, {code}, texts)
                suites = xml.etree.ElementTree.parse(report).getroot()
                self.assertEqual((suites.get("errors"), suites.get("failures")), ("2", "0"))
                messages = [error.get("message") for error in suites.iter("error")]
                self.assertIn(told, messages[0])
                # Ranks that end because of it are not the cause.
                self.assertIn("the process of rank 2 is gone", messages[1])

    def test_json_has_no_report_or_the_lost_ranks_and_diff_refuses_it(self):
        codes, texts = self.job("2 gather kill", "run", "--json", self.long)
        self.assertEqual(codes, {2}, texts)
        self.assertTrue(texts[0].startswith(f"error: {LOST}"), texts)
        codes, texts = self.job("2 run kill", "run", "--json", self.long)
        self.assertEqual(codes, {4}, texts)
        report = json.loads(texts[0])
        self.assertEqual(report["lost"], [2])
        cut, whole = self.folder / "cut.json", self.folder / "whole.json"
        cut.write_text(texts[0], encoding="utf-8")
        whole.write_text(output(FAULTY, "run", "--json", self.long)[1], encoding="utf-8")
        for words in ((cut, whole), (whole, cut), (whole, cut, "--gate", "bytes=+5%")):
            code, _, errors = output(FAULTY, "diff", *words)
            self.assertEqual(code, 2, errors)
            self.assertIn(f"{cut}:1: ranks were lost in this run", errors)

    def test_a_replay_tells_it_once(self):
        graph = self.folder / "g.json"
        self.assertEqual(output(FAULTY, "trace", "--out", graph, self.long)[0], 0)
        for stage, code, told in (("run", 4, FAILED), ("end", 4, FAILED), ("gather", 2, LOST)):
            with self.subTest(stage):
                codes, texts = self.job(f"2 {stage} kill", "replay", graph)
                self.assertEqual((codes, self.errors(texts)), ({code}, 1), texts)
                self.assertIn(f"error: {told}", texts[0])

    def test_commands_that_run_a_program_many_times_refuse_it_once(self):
        for command in ("blame", "shrink", "advise", "types", "trace"):
            with self.subTest(command):
                codes, texts = self.job("none", command, self.long)
                self.assertEqual((codes, self.errors(texts)), ({2}, 1), texts)
                self.assertIn("backend nccl has one for each rank", "".join(texts))


if __name__ == "__main__":
    FAULTY, DOUBLE = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
