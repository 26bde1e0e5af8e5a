#!/usr/bin/env python3
"""Training steps recorded in PyTorch: every result is held against what was recorded, a planted
mistake is found where it is, and a damaged file is refused with its event.

    step_test.py PROGRAM RECORDINGS
"""

import gzip
import json
import pathlib
import sys
import unittest
import zlib

import program

RECORDINGS = pathlib.Path(sys.argv[2]).resolve()
FILES = sorted(RECORDINGS.glob("*.json.gz"))


def taken_apart(path):
    """(events, raw bytes)"""
    inflater = zlib.decompressobj(31)
    text = inflater.decompress(path.read_bytes())
    return [json.loads(line) for line in text.splitlines()], inflater.unused_data


def put_together(path, events, raw):
    text = "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events)
    path.write_bytes(gzip.compress(text.encode(), mtime=0) + raw)


def is_float(value):
    return value is not None and value.get("dtype") in ("f32", "bf16", "f64") and "fp" in value


class Steps(program.Program):
    def refused(self, *arguments):
        code, output, errors = self.shardlab(*arguments)
        self.assertEqual((code, output), (2, ""), errors)
        self.assertEqual(errors.count("error:"), 1, errors)
        self.assertIn("  fix         ", errors)
        return errors

    def changed(self, name, change, raw=None):
        """The recording with `change(events)` done to it, as file x.json.gz."""
        path = next(file for file in FILES if file.name.startswith(name + "__"))
        events, data = taken_apart(path)
        change(events)
        events[-1]["events"] = len(events)
        put_together(self.folder / "x.json.gz", events, data if raw is None else raw(data))
        return "x.json.gz"

    def test_every_recorded_step_replays(self):
        self.assertGreaterEqual(len(FILES), 7)
        for path in FILES:
            with self.subTest(path=path.name):
                report = json.loads(self.fine("replay", "--json", str(path)))
                events, _ = taken_apart(path)
                ops = sum(event["k"] == "local_op" for event in events)
                self.assertEqual((report["ops"], report["skipped"]), (ops, 0))
                self.assertEqual((report["differ"], report["missing"]), (0, []))
                self.assertLess(report["undecided"], 0.2 * report["agree"])

    def test_a_wrong_result_is_found_where_it_is(self):
        for name, field, factor in (("llama", "out", 1.01), ("convolutions", "mut", 1.01),
                                    ("gpt", "out", 1.01)):
            events, _ = taken_apart(next(f for f in FILES if f.name.startswith(name + "__")))
            chosen = [i for i, e in enumerate(events)
                      if e["k"] == "local_op" and e.get(field) and is_float(e[field][0])
                      and abs(e[field][0]["fp"][1]) > 1 and "detach" not in e["op"]]
            for at in chosen[3:: max(1, len(chosen) // 4)]:
                with self.subTest(name=name, event=at, op=events[at]["op"]):
                    def change(events, at=at):
                        value = events[at][field][0]
                        value["fp"] = [x * factor for x in value["fp"]]
                    code, output, _ = self.shardlab(
                        "replay", "--json", self.changed(name, change))
                    first = json.loads(output)["differences"][0]
                    self.assertEqual((code, first["event"]), (1, at + 1))
                    self.assertEqual(first["op"], events[at]["op"])

    def test_a_wrong_argument_is_found_at_its_place(self):
        def change(events):
            op = next(e for e in events if e["k"] == "local_op" and e["op"] == "aten.mean.dim")
            op["args"][1] = [-2]
            op["out"][0]["shape"] = op["out"][0]["shape"]
        code, output, _ = self.shardlab("replay", self.changed("llama", change))
        self.assertEqual(code, 1)
        self.assertRegex(output, r"FAIL event \d+  layers.0.attention_norm  programs.py:\d+  "
                                 r"aten.mean.dim  out\[0\]")
        self.assertIn("FAILED x.json.gz", output)

    def test_an_op_that_does_not_exist_is_named(self):
        def change(events):
            op = next(e for e in events if e["k"] == "local_op" and e["op"] == "aten.silu.default")
            op["op"] = "aten.sillu.default"
        code, output, _ = self.shardlab("replay", self.changed("llama", change))
        self.assertEqual(code, 1)
        self.assertIn("aten.sillu.default does not exist here", output)
        self.assertRegex(output, r"\d+ ops skipped")

    def test_damaged_files_are_refused_with_their_event(self):
        path = next(f for f in FILES if f.name.startswith("llama__"))
        whole = path.read_bytes()
        (self.folder / "cut.json.gz").write_bytes(whole[: len(whole) // 2])
        self.assertIn("damaged or cut short", self.refused("replay", "cut.json.gz"))
        (self.folder / "raw.json.gz").write_bytes(whole[:-8])
        self.assertIn("bytes of elements follow", self.refused("replay", "raw.json.gz"))
        events, raw = taken_apart(path)
        put_together(self.folder / "end.json.gz", events[:-1], raw)
        self.assertIn("it has no end", self.refused("replay", "end.json.gz"))
        events[0]["schema"] = 3
        put_together(self.folder / "new.json.gz", events, raw)
        self.assertIn("schema 3", self.refused("replay", "new.json.gz"))

    def test_what_a_damaged_line_says_is_refused(self):
        def op(events):
            return next(e for e in events if e["k"] == "local_op" and "p" in e)

        def unknown_value(events):
            op(events)["args"][0] = {"v": 99999}

        def later_value(events):
            op(events)["args"][0] = {"v": events[-1]["n_values"] - 1}

        def unknown_kind(events):
            op(events)["k"] = "local_opp"

        def no_dtype(events):
            op(events)["out"][0]["dtype"] = "f31"

        def negative(events):
            op(events)["out"][0]["shape"] = [-1]

        def huge(events):
            op(events)["out"][0]["shape"] = [1 << 40, 1 << 40]

        def beyond(events):
            given = next(e for e in events if isinstance(e.get("raw"), list))
            given["raw"] = [1 << 40, given["raw"][1]]

        def no_key(events):
            del op(events)["args"]

        def no_place(events):
            op(events)["p"] = 1000

        for change in (unknown_value, later_value, unknown_kind, no_dtype, negative, huge, beyond,
                       no_key, no_place):
            with self.subTest(change=change.__name__):
                errors = self.refused("replay", self.changed("llama", change))
                self.assertRegex(errors, r"x.json.gz: event \d+")

    def test_what_the_recorder_could_not_see_is_refused_by_name(self):
        def change(events):
            events[-1]["refused"] = {"a transform of torch.func": [3, "train.py:12"]}
        errors = self.refused("replay", self.changed("llama", change))
        self.assertIn("a transform of torch.func at train.py:12", errors)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
