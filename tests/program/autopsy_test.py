#!/usr/bin/env python3
"""shardlab autopsy: dumps of PyTorch's flight recorder, real ones and those of our own hangs.

    autopsy_test.py PROGRAM SCENARIOS FACTS [--mutations COUNT]

FACTS is the folder of recorded dumps; its README describes them.
"""

import gzip
import json
import os
import pathlib
import pickle
import random
import re
import sys
import tarfile
import unittest

import program


class Evil:
    """A pickle that would make a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


class Autopsy(program.Program):
    scenarios, facts, mutations = pathlib.Path(), pathlib.Path(), 300
    cases = []

    def autopsy(self, *arguments):
        code, output, errors = self.shardlab("autopsy", "--json", *arguments)
        return code, json.loads(output) if output else None, errors

    def dump(self, name, files):
        """A folder of files by name."""
        folder = self.folder / name
        folder.mkdir()
        for file, content in files.items():
            (folder / file).write_bytes(content)
        return name

    def real(self):
        """By kind: {file: bytes}."""
        with tarfile.open(self.facts / "real_gloo.tar.gz") as archive:
            kinds = {}
            for member in archive.getmembers():
                kind, _, name = member.name.removeprefix("./").partition("/")
                if member.isfile() and name.startswith("rank_"):
                    kinds.setdefault(kind, {})[name] = archive.extractfile(member).read()
        return kinds

    def test_real_dumps(self):
        real = self.real()
        for kind, culprits, word in (("healthy", [], "healthy"), ("other_op", [3], "other_kind"),
                                     ("skipped", [2], "no_dump")):
            with self.subTest(kind):
                code, found, _ = self.autopsy(self.dump(kind, real[kind]))
                self.assertEqual((found["culprits"], found["kind"]), (culprits, word))
                self.assertEqual(code, 1 if culprits else 0)

    def test_a_missing_file_a_cut_one_and_one_of_another_job(self):
        real = self.real()
        files = dict(real["other_op"])
        del files["rank_1"]
        found = self.autopsy(self.dump("missing", files))[1]
        self.assertEqual((found["culprits"], found["missing"]), ([3], [1]))
        healthy = dict(real["healthy"])
        del healthy["rank_1"]
        code, found, _ = self.autopsy(self.dump("one_less", healthy))
        self.assertEqual((code, found["kind"], found["missing"]), (0, "healthy", [1]))
        files = dict(real["other_op"])
        files["rank_1"] = files["rank_1"][:-200]
        found = self.autopsy(self.dump("cut", files))[1]
        self.assertEqual(found["culprits"], [3])
        self.assertTrue(any("rank_1 ends early" in note for note in found["notes"]))
        files = dict(real["other_op"])
        files["rank_1"] = real["healthy"]["rank_1"]
        code, _, errors = self.autopsy(self.dump("foreign", files))
        self.assertEqual(code, 2)
        self.assertIn("rank_1: a dump of another job", errors)

    def test_pickles_name_the_same_culprit_as_json(self):
        for case in self.cases[::9]:
            for protocol in (2, 4):
                with self.subTest(case["name"], protocol=protocol):
                    files = {f"nccl_trace_rank_{rank}": pickle.dumps(dump, protocol=protocol)
                             for rank, dump in case["dumps"].items()}
                    found = self.autopsy(self.dump(f"{case['name']}.{protocol}", files))[1]
                    self.assertEqual(found["culprits"], case["truth"]["culprits"])
            files = {f"rank_{rank}.json.gz": gzip.compress(json.dumps(dump).encode())
                     for rank, dump in case["dumps"].items()}
            found = self.autopsy(self.dump(f"{case['name']}.json", files))[1]
            self.assertEqual(found["culprits"], case["truth"]["culprits"])

    def test_the_text_is_short(self):
        for case in self.cases[::13]:
            files = {f"rank_{rank}": json.dumps(dump).encode()
                     for rank, dump in case["dumps"].items()}
            output = self.shardlab("autopsy", self.dump(case["name"], files))[1]
            self.assertLessEqual(output.count("\n"), 12, output)
            for culprit in case["truth"]["culprits"]:
                self.assertRegex(output.splitlines()[0], rf"Ranks? [\d,-]*\b{culprit}\b")

    def test_nothing_is_executed(self):
        path = self.folder / "made"
        code, _, errors = self.autopsy(self.dump("evil", {
            "rank_0": pickle.dumps({"entries": [Evil(path)]}, protocol=2)}))
        self.assertEqual(code, 2)
        self.assertRegex(errors, r"rank_0: the opcode GLOBAL at byte \d+ is none of a dump's")
        self.assertFalse(path.exists())
        for opcode, name in ((b"R", "REDUCE"), (b"b", "BUILD"), (b"\x93", "STACK_GLOBAL")):
            errors = self.autopsy(self.dump(name, {"rank_0": b"\x80\x02}" + opcode + b"."}))[2]
            self.assertIn(f"the opcode {name} at byte 3", errors)

    def test_damaged_dumps_end_in_a_verdict(self):
        draw = random.Random(11)
        case = min(self.cases, key=lambda one: len(json.dumps(one["dumps"])))
        dump = case["dumps"]["0"]
        forms = [pickle.dumps(dump, protocol=2), json.dumps(dump).encode()]
        (self.folder / "m").mkdir()
        for number in range(self.mutations):
            content = bytearray(forms[number % 2])
            for _ in range(draw.randint(1, 6)):
                place = draw.randrange(len(content))
                content[place:place + draw.choice([0, 1, 1, 4])] = bytes(
                    draw.randrange(256) for _ in range(draw.choice([0, 1, 1, 8])))
            if draw.random() < 0.2:
                del content[draw.randrange(len(content)):]
            (self.folder / "m" / "rank_0").write_bytes(bytes(content) or b"x")
            code, output, errors = self.shardlab("autopsy", "m")
            self.assertIn(code, (0, 1, 2), output + errors)
            self.assertNotIn("defect", errors)

    def test_our_own_hangs(self):
        hangs = [path for folder in ("zoo", "faults", "hangs")
                 for path in sorted((self.scenarios / folder).glob("*.toml"))
                 if re.search(r'^verdict = "deadlock"', path.read_text(encoding="utf-8"), re.M)]
        self.assertGreater(len(hangs), 8)
        for path in hangs:
            with self.subTest(path.name):
                output = self.shardlab("run", "--flight-recorder", "fr", "--json", path)[1]
                run = json.loads(output)
                lines = {int(line) for line in re.findall(
                    rf"(?:{re.escape(path.name)}:|\(line )(\d+)", json.dumps(run["error"]))}
                code, found, _ = self.autopsy("fr")
                self.assertEqual(code, 1)
                self.assertIn(found["line"], lines)
                first = {one.name: one.read_bytes() for one in (self.folder / "fr").iterdir()}
                self.shardlab("run", "--flight-recorder", "again", path)
                again = {one.name: one.read_bytes() for one in (self.folder / "again").iterdir()}
                self.assertEqual(first, again)
                for one in first:
                    (self.folder / "fr" / one).unlink()


if __name__ == "__main__":
    Autopsy.scenarios = pathlib.Path(sys.argv[2]).resolve()
    Autopsy.facts = pathlib.Path(sys.argv[3]).resolve()
    if "--mutations" in sys.argv:
        Autopsy.mutations = int(sys.argv[sys.argv.index("--mutations") + 1])
    with gzip.open(Autopsy.facts / "dumps.jsonl.gz", "rt", encoding="utf-8") as lines:
        Autopsy.cases = [json.loads(line) for line in lines]
    unittest.main(argv=sys.argv[:1])
