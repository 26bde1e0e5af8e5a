#!/usr/bin/env python3
"""Recordings of scripts that use spmd_types: their claims and moves hold, and one that is changed
in the file is found at its line.

    typed_recordings_test.py PROGRAM FOLDER

A changed claim is wrong by what its type means, for the values that PyTorch had; nothing else of
the file changes, so that results still agree.
"""

import gzip
import json
import pathlib
import re
import sys
import unittest
import zlib

from program import Program

FOLDER = pathlib.Path(sys.argv[2]).resolve() / "typed"
SCRIPTS = ("llama", "moe", "pipeline")


def lines_of(name, ranks):
    data = (FOLDER / f"{name}_{ranks}.json.gz").read_bytes()
    unpacked = zlib.decompressobj(31)
    text = unpacked.decompress(data).decode()
    return [json.loads(line) for line in text.splitlines()], unpacked.unused_data


def is_claim(event, script, dim, kind):
    """A claim of a type along a dim, not of a gradient."""
    types = {one["dim"]: one["type"] for one in event.get("types", ())}
    return event["k"] == "typed" and event["call"] == "assert_type" and types.get(dim) == kind


class TypedRecordings(Program):
    def changed(self, name, change):
        """Writes the recording of four ranks with one event changed; its line in the file."""
        events, raw = lines_of(name, 4)
        at = next(i for i, event in enumerate(events) if change(event))
        text = "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events)
        (self.folder / "changed.json.gz").write_bytes(gzip.compress(text.encode()) + raw)
        place = next(e for e in events if e["k"] == "place" and e["p"] == events[at].get("p"))
        return f"{place['file']}:{place['line']}"

    def test_claims_and_moves_hold(self):
        for name in SCRIPTS:
            output = self.fine("replay", str(FOLDER / f"{name}_4.json.gz"))
            self.assertRegex(output, r"4 ranks, .* 0 differ.* [1-9]\d* claims and moves of types",
                             name)

    def test_what_ranks_make_is_the_value_of_one_process(self):
        for name in ("llama", "moe"):
            files = (str(FOLDER / f"{name}_{ranks}.json.gz") for ranks in (1, 4))
            self.assertIn("ok: ", self.fine("blame", *files), name)

    def test_run_judges_and_types_infers(self):
        ranks, one = (str(FOLDER / f"llama_{n}.json.gz") for n in (4, 1))
        self.assertRegex(self.fine("run", ranks), r"4 ranks, .* 0 differ.* moves of types")
        self.assertRegex(self.fine("run", one, "--mesh", "dp=2,tp=2", "--plan", "megatron"),
                         r"ok .* 4 ranks, [1-9]\d* values verified")
        self.changed("llama", lambda event: is_claim(event, "llama", "tp", "S(0)") and (
            event["types"][1].update(type="R") or True))
        self.assertEqual(self.shardlab("run", "changed.json.gz")[0], 1)
        alone = self.fine("types", ranks)
        self.assertIn("shardlab types RANKS ONE", alone)
        output = self.fine("types", ranks, one)
        for line in (r"llama.py linear +f32\[2, 6, 16\] +dp S\(0\) +tp P",
                     r"llama.py all_reduce +f32\[2, 6, 16\] +dp S\(0\) +tp I",
                     r"llama.py convert +f32\[2, 6, 16\] +dp S\(0\) +tp R\n",
                     r"llama.py all_gather +f32\[2, 6, 32\] +dp S\(0\) +tp I"):
            self.assertRegex(output, line)
        self.assertNotIn("RANKS ONE", output)  # what one process has not is part of a move
        values = json.loads(self.fine("types", "--json", ranks, one))["values"]
        self.assertIn(["S(0)", "P"], [value["types"] for value in values])

    def test_what_a_recording_has_not_is_refused(self):
        ranks, one = (str(FOLDER / f"llama_{n}.json.gz") for n in (4, 1))
        for options, said in ((("types", "--annotate", ranks), "has no text of the program"),
                              (("types", one), "says nothing of types"),
                              (("types", ranks, ranks), "no recording of one process"),
                              (("run", "--types", "strict", ranks), "typecheck(\"strict\")"),
                              (("run", ranks, "--mesh", "dp=2"), "is not taken to another")):
            code, output, errors = self.shardlab(*options)
            self.assertEqual(code, 2, output)
            self.assertIn(said, errors)
            self.assertIn("fix", errors)

    def test_a_false_claim_is_found_at_its_line(self):
        def retyped(dim, kind, to):
            def change(event):
                if not is_claim(event, "llama", dim, kind):
                    return False
                next(one for one in event["types"] if one["dim"] == dim)["type"] = to
                return True
            return change

        for dim, kind, to, said in (
                ("tp", "S(0)", "R", "R along tp: equal values"),
                ("tp", "I", "R", "which is I"),
                ("dp", "S(0)", "I", "I along dp: equal values"),
        ):
            place = self.changed("llama", retyped(dim, kind, to))
            code, output, _ = self.shardlab("replay", "changed.json.gz")
            self.assertEqual(code, 1, output)
            self.assertIn(said, output)
            self.assertIn(place, output)
        for dim, kind, to in (("tp", "S(0)", "S(1)"), ("tp", "S(1)", "P"), ("dp", "S(0)", "P")):
            place = self.changed("llama", retyped(dim, kind, to))
            self.shardlab("replay", "changed.json.gz")
            code, output, _ = self.shardlab("blame", str(FOLDER / "llama_1.json.gz"),
                                            "changed.json.gz")
            self.assertEqual(code, 1, output)
            self.assertRegex(output, re.escape(place) + r": .*the value of one process")

    def test_a_false_move_is_found_at_its_line(self):
        def change(event):
            if event["k"] != "typed" or event["call"] != "all_reduce":
                return False
            event["types"][0]["type"] = "R"
            return True

        place = self.changed("pipeline", change)
        code, output, _ = self.shardlab("replay", "changed.json.gz")
        self.assertEqual(code, 1, output)
        self.assertIn("R along tp: equal values before", output)
        self.assertIn(place, output)

    def test_another_version_is_named_and_an_unknown_call_refused(self):
        def version(event):
            if event["k"] == "package":
                event["version"] = "0.9.0"
            return event["k"] == "place" and event["p"] == 0

        self.changed("llama", version)
        code, output, errors = self.shardlab("replay", "changed.json.gz")
        self.assertEqual(code, 0, output)
        self.assertIn("spmd_types 0.9.0", output + errors)

        def unknown(event):
            if event["k"] == "end":
                event["refused"] = {"spmd_types.spmd_redistribute": [1, "llama.py:1"]}
            return event["k"] == "end"

        with self.assertRaises(StopIteration):
            self.changed("llama", unknown)  # the end has no place; the file is written before
        code, output, errors = self.shardlab("replay", "changed.json.gz")
        self.assertEqual(code, 2, output)
        self.assertIn("spmd_types.spmd_redistribute at llama.py:1", output + errors)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
