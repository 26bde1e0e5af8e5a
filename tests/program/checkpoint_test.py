#!/usr/bin/env python3
"""`shardlab show` and `reshard` on checkpoints, and checkpoints in scenarios.

    checkpoint_test.py PROGRAM ROOT

What files hold is written and read here by plain Python, never by the program under test.
"""

import gzip
import hashlib
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import unittest
import zlib

from program import PROGRAM, Program

ROOT = pathlib.Path(sys.argv[2]).resolve()
CORPUS = ROOT / "tests/golden/checkpoints"


def stored(path):
    """{name: (dtype, shape, bytes)} of a safetensors file, and its metadata."""
    data = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    metadata = header.pop("__metadata__", {})
    body = data[8 + size :]
    return {
        name: (entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])])
        for name, entry in header.items()
    }, metadata


def f32(*numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)


class Checkpoints(Program):
    def write(self, name, **tensors):
        """A safetensors file of f32: name -> (shape, numbers)."""
        header, body = {}, b""
        for key, (shape, numbers) in tensors.items():
            data = f32(*numbers)
            header[key] = {"dtype": "F32", "shape": shape,
                           "data_offsets": [len(body), len(body) + len(data)]}
            body += data
        text = json.dumps(header).encode()
        (self.folder / name).write_bytes(struct.pack("<Q", len(text)) + text + body)

    def refused(self, *arguments):
        code, output, errors = self.shardlab(*arguments)
        self.assertEqual((code, output), (2, ""), errors)
        self.assertTrue(errors.startswith("error: "), errors)
        return errors

    def test_layers_are_folded(self):
        tensors = {f"layers.{i}.w": ([2, 2], [i, 1, 2, 3]) for i in range(3)}
        self.write("x.safetensors", **tensors, head=([1], [5]))
        self.assertIn("  layers.*.w  f32[2, 2]  16 B  1 piece  x.safetensors  x 3\n",
                      self.fine("show", "x.safetensors"))
        full = self.fine("show", "--full", "x.safetensors")
        self.assertNotIn("*", full)
        self.assertIn("  layers.2.w  f32[2, 2]  16 B  1 piece  x.safetensors\n", full)

    def test_what_is_missing_or_not_read_is_told(self):
        self.write("a.safetensors", w=([2], [1, 2]))
        self.write("old.safetensors", w=([1], [1]))
        (self.folder / "m.safetensors.index.json").write_text(
            '{"weight_map": {"w": "a.safetensors", "v": "a.safetensors"}}', encoding="utf-8")
        shown = self.fine("show", ".")
        self.assertIn("note: 'v' is not in a.safetensors, where the index has it\n", shown)
        self.assertIn("note: old.safetensors is not read: the index does not name it\n", shown)
        self.assertIn("no tensor 'u'", self.refused("show", "a.safetensors", "--tensor", "u"))
        self.assertIn("a type needs a mesh", self.refused("show", "f32[8]"))
        self.assertIn("no checkpoint in it", self.refused("show", str(ROOT / "sim")))

    def test_a_conversion_is_what_its_edits_say(self):
        self.write("a.safetensors", **{
            "layers.0.qkv": ([4, 2], range(8)), "layers.0.w": ([2, 2], [1, 2, 3, 4])})
        printed = self.fine(
            "reshard", "a.safetensors", "b.safetensors", "--split", "qkv = q:2, k:1, v:1",
            "--transpose", "w", "--rename", "layers.{i} -> model.{i}", "--dtype", "w = f64")
        tensors, _ = stored(self.folder / "b.safetensors")
        self.assertEqual(tensors, {
            "model.0.q": ("F32", [2, 2], f32(0, 1, 2, 3)),
            "model.0.k": ("F32", [1, 2], f32(4, 5)),
            "model.0.v": ("F32", [1, 2], f32(6, 7)),
            "model.0.w": ("F64", [2, 2], struct.pack("<4d", 1, 3, 2, 4)),
        })
        (undo,) = [line for line in printed.splitlines() if line.startswith("  undo ")]
        done = subprocess.run(
            undo.removeprefix("  undo ").replace("shardlab", PROGRAM)
            .replace("BACK", "c.safetensors"),
            shell=True, cwd=self.folder, capture_output=True, encoding="utf-8", check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.fine("reshard", "--check", "a.safetensors", "c.safetensors")

    def test_files_of_ranks_have_their_places(self):
        self.write("a.safetensors", w=([5, 2], range(10)), b=([3], [1, 2, 3]))
        self.fine("reshard", "a.safetensors", "ranks", "--mesh", "dp=2,tp=2", "--to",
                  "w = [_@(tp,dp), _]", "--to", "b=[_@dp]")
        names = sorted(path.name for path in (self.folder / "ranks").iterdir())
        self.assertEqual(names, [f"shard-0000{i}-model-00001-of-00001.safetensors"
                                 for i in (1, 2, 3, 4)])
        found = {}
        for rank, name in enumerate(names):
            tensors, metadata = stored(self.folder / "ranks" / name)
            places = json.loads(metadata["DCP_SHARDING_INFO"])
            found[rank] = {key: (places[key]["saved_offsets"], tensor[1], tensor[2])
                           for key, tensor in tensors.items()}
        # tp cuts first, into 3 and 2 rows; then dp: rank = 2 dp + tp.
        self.assertEqual(found, {
            0: {"w": ([0, 0], [2, 2], f32(0, 1, 2, 3)), "b": ([0], [2], f32(1, 2))},
            1: {"w": ([3, 0], [1, 2], f32(6, 7))},
            2: {"w": ([2, 0], [1, 2], f32(4, 5)), "b": ([2], [1], f32(3))},
            3: {"w": ([4, 0], [1, 2], f32(8, 9))},
        })

    def test_differences_have_their_exit_code(self):
        self.write("a.safetensors", w=([2], [1, 2]), v=([1], [3]), old=([2], [7, 8]))
        self.write("b.safetensors", w=([2], [1, 5]), v=([1], [3]), new=([2], [7, 8]))
        code, output, errors = self.shardlab("reshard", "--check", "a.safetensors", "b.safetensors")
        self.assertEqual((code, errors), (1, ""))
        self.assertIn("equal      1 tensor, 4 B\n", output)
        self.assertIn("nothing explains all of it: dim 0 at 1\n", output)
        self.assertIn("new  f32[2]  in B alone, equal to old\n", output)
        self.assertIn("--rename 'new -> old'", output)
        self.assertIn("cannot be read", self.refused("reshard", "--check", "a.safetensors", "c"))

    def test_what_is_there_is_kept(self):
        self.write("a.safetensors", w=([2], [1, 2]))
        (self.folder / "b").mkdir()
        (self.folder / "b/notes.txt").write_text("mine", encoding="utf-8")
        self.assertIn("is there already", self.refused("reshard", "a.safetensors", "b"))
        self.assertIn("has notes.txt", self.refused("reshard", "a.safetensors", "b", "--force"))
        self.assertEqual((self.folder / "b/notes.txt").read_text(encoding="utf-8"), "mine")
        self.fine("reshard", "a.safetensors", "c")
        self.fine("reshard", "a.safetensors", "c", "--force")
        self.assertEqual({path.name for path in self.folder.iterdir()}, {"a.safetensors", "b", "c"})

    def test_files_have_at_most_so_many_bytes(self):
        self.write("a.safetensors", w=([2], [1, 2]), v=([1], [3]), u=([3], [4, 5, 6]))
        self.fine("reshard", "a.safetensors", "b", "--max-bytes", "12")
        index = json.loads((self.folder / "b/model.safetensors.index.json").read_text("utf-8"))
        self.assertEqual(index["weight_map"], {
            "w": "model-00001-of-00002.safetensors", "v": "model-00001-of-00002.safetensors",
            "u": "model-00002-of-00002.safetensors"})
        self.fine("reshard", "--check", "a.safetensors", "b")
        # A file that is named is one.
        self.fine("reshard", "a.safetensors", "c.safetensors", "--max-bytes", "4")
        self.fine("reshard", "--check", "a.safetensors", "c.safetensors")

    def test_bad_edits_are_refused(self):
        self.write("a.safetensors", **{"x.q": ([4, 2], range(8)), "x.w": ([2], [1, 2])})
        for options, message in (
            (("--rename", "q"), "two parts with '->' between them are expected"),
            (("--rename", "y -> z"), "it fits no tensor"),
            (("--rename", "q -> w"), "two tensors are then called 'x.w'"),
            (("--split", "q = a:1, b:2"), "has another number of rows"),
            (("--split", "q = a"), "two parts with ':'"),
            (("--join", "all = q, w"), "does not fit"),
            (("--rope", "halves"), "--heads before it"),
            (("--heads", "q=3", "--rope", "halves"), "is not 3, 0, 2, 2 elements"),
            (("--transpose", "w"), "has no two dims"),
            (("--pick", "q = [0:5, _]"), "0:5 is outside of 0:4"),
            (("--pick", "q = 0"), "in brackets is expected"),
            (("--swap", "q = 1, 2"), "four sizes are expected"),
            (("--dtype", "i8"), "'i8' is no dtype of floats"),
            (("--scale", "q = 0"), "a factor of"),
            (("--tie", "q = y"), "there is no tensor 'y'"),
            (("--drop", "y"), "it fits no tensor"),
            (("--mesh", "x=2", "--to", "x.q=[_@x]"), "x.q"),
            (("--mesh", "x=2", "--to", "y=[_@x]"), "is the first for no tensor"),
            (("--mesh", "x=2", "--plan", "none"), "no such plan"),
        ):
            with self.subTest(options=options):
                self.assertIn(message, self.refused("reshard", "a.safetensors", "b", *options))
        self.assertFalse((self.folder / "b").exists())

    def test_arguments_that_say_nothing_are_refused(self):
        self.write("a.safetensors", w=([2, 2], range(4)))
        for words, message in (
            (("a.safetensors",), "1 path given"),
            (("--check", "a.safetensors"), "1 path given"),
            (("--check", "a.safetensors", "a.safetensors", "--against", "x"), "2 paths given"),
            (("a.safetensors", "--against", "x"), "--against: no --check"),
            (("a.safetensors", "b", "--to", "w = [_@x, _]"), "of a mesh"),
            (("a.safetensors", "b", "--plan", "fsdp"), "of a mesh"),
            (("--check", "a.safetensors", "a.safetensors", "--mesh", "x=2"), "writes nothing"),
            (("a.safetensors", "b", "--scale", "w = 2x"), "a factor of"),
            (("a.safetensors", "b", "--scale", "w = inf"), "a factor of"),
            (("a.safetensors", "b", "--heads", "w=0", "--rope", "halves"), "no number of heads"),
        ):
            with self.subTest(words=words):
                self.assertIn(message, self.refused("reshard", *words))
        self.assertIn("a.safetensors/b cannot be written",
                      self.refused("reshard", "a.safetensors", "a.safetensors/b"))

    def test_tensors_that_are_not_as_they_are_stored(self):
        """torch.save keeps conj() and its imag as marks beside other elements."""
        folder = ROOT / "tests/golden/checkpoints/refused"
        self.assertIn("lazily conjugated or negated complex64[2]",
                      self.fine("show", folder / "lazy.pt"))
        self.assertIn("'conjugated' ?[2] has a dtype that is not read",
                      self.refused("reshard", folder / "lazy.pt", "b"))
        self.fine("reshard", folder / "lazy.pt", "b.safetensors", "--drop", "conjugated", "--drop",
                  "negated")
        data = (self.folder / "b.safetensors").read_bytes()
        self.assertIn(struct.pack("<4f", 1, -2, 3, 4), data)
        self.assertIn("two tensors are called 'a.b'", self.refused("show", folder / "twice.pt"))

    def test_elements_that_no_piece_has_are_told_in_a_comparison(self):
        """The file of one rank was not copied."""
        self.write("a.safetensors", w=([4, 4], range(1, 17)), zeros=([4], [0] * 4))
        self.fine("reshard", "a.safetensors", "ranks", "--mesh", "dp=2,tp=2", "--to",
                  "w = [_@dp, _@tp]", "--to", "zeros = [_@dp]")
        self.fine("reshard", "--check", "a.safetensors", "ranks")
        (self.folder / "ranks/shard-00001-model-00001-of-00001.safetensors").unlink()
        for one, other, side in (("a.safetensors", "ranks", "B"), ("ranks", "a.safetensors", "A")):
            code, output, _ = self.shardlab("reshard", "--check", one, other)
            self.assertEqual(code, 1)
            self.assertIn(f"  w: no piece of {side} has [0:2, 0:2]\n", output)
            self.assertIn(f"  zeros: no piece of {side} has [0:2]\n", output)
        code, output, _ = self.shardlab("reshard", "--check", "a.safetensors", "ranks")
        self.assertIn("    piece-missing; no piece of B has=[0:2, 0:2]\n", output)
        self.assertEqual(self.shardlab("reshard", "--check", "ranks", "ranks")[0], 1)

    def test_a_dtype_that_is_not_read_is_refused_by_tensor(self):
        packed = ROOT / "tests/golden/checkpoints/refused/packed.pt"
        self.assertIn("  packed  float4_e2m1fn_x2[2]", self.fine("show", packed))
        self.fine("reshard", packed, "b.safetensors", "--drop", "packed")
        tensors, _ = stored(self.folder / "b.safetensors")
        self.assertEqual(tensors, {"scales": ("F8_E8M0", [2], bytes([127, 129]))})

    def test_experts_are_stacked_and_apart(self):
        apart = {f"layers.{i}.experts.{e}.w": ([2, 3], range(10 * i + e, 10 * i + e + 6))
                 for i in range(2) for e in range(11)}
        self.write("a.safetensors", **apart)
        printed = self.fine("reshard", "a.safetensors", "b.safetensors", "--stack",
                            "experts.w = experts.{e}.w")
        self.assertIn("undo     shardlab reshard b.safetensors BACK --unstack "
                      "'experts.w = experts.{e}.w'", printed)
        tensors, _ = stored(self.folder / "b.safetensors")
        self.assertEqual(tensors["layers.1.experts.w"], (
            "F32", [11, 2, 3], f32(*(10 + e + i for e in range(11) for i in range(6)))))
        self.fine("reshard", "b.safetensors", "c.safetensors", "--unstack",
                  "experts.w = experts.{e}.w")
        self.fine("reshard", "--check", "a.safetensors", "c.safetensors")
        for edit, why in (("experts.w = layers.{i}.experts.{e}.w", "a part in braces"),
                          ("experts.w = layers.*.experts.{e}.w", "two tensors have the number"),
                          ("w = experts.w", "a part in braces"), ("x = none.{e}.w", "no tensor")):
            self.assertIn(why, self.refused("reshard", "a.safetensors", "d", "--stack", edit))
        del apart["layers.0.experts.3.w"]
        self.write("a.safetensors", **apart)
        self.assertIn("from 0 on", self.refused("reshard", "a.safetensors", "d", "--stack",
                                                "experts.w = experts.{e}.w"))

    def test_the_command_that_is_told_makes_b_right(self):
        """Fused and single, stacked and apart, tied under other names: split, stacked, renamed."""
        q, k, v = ([4, 2], range(8)), ([2, 2], range(20, 24)), ([2, 2], range(30, 34))
        fused = ([8, 2], [*range(8), *range(20, 24), *range(30, 34)])
        ones = ([2], [1, 1])
        experts = {f"experts.{e}.w": ([1, 2], [e, e + 50]) for e in range(3)}
        stacked = {"experts.all": ([3, 1, 2], [0, 50, 1, 51, 2, 52])}
        pairs = [
            ({"q": q, "k": k, "v": v}, {"qkv": fused}, "--split"),
            ({"qkv": fused}, {"q": q, "k": k, "v": v}, "--join"),
            (experts, stacked, "--unstack"), (stacked, experts, "--stack"),
            ({"embed": q, "head": q, "norm": ones}, {"m.embed": q, "m.head": q, "m.norm": ones},
             "--rename"),
            ({"embed": q, "head": q}, {"m.embed": q}, "--tie"),
        ]
        for a, b, option in pairs:
            with self.subTest(option):
                self.write("a.safetensors", **a, last=ones)
                self.write("b.safetensors", **b, last=ones)
                code, output, _ = self.shardlab("reshard", "--check", "a.safetensors",
                                                "b.safetensors")
                self.assertEqual(code, 1, output)
                last = output.splitlines()[-1]
                self.assertIn(option, last)
                words, command = last.split(": ", 1)
                self.assertEqual(words, "this makes B right, as a trial has shown")
                done = subprocess.run(
                    command.replace("shardlab", PROGRAM).replace(" C ", " c.safetensors --force "),
                    shell=True, cwd=self.folder, capture_output=True, encoding="utf-8", check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.fine("reshard", "--check", "a.safetensors", "c.safetensors")
        # One edit for all layers, and one line; the patterns fit no moment.
        layers = {f"layers.{i}.w": ([2], [i, 1]) for i in range(12)}
        moments = {f"optim.m.layers.{i}.w": ([2], [i, 2]) for i in range(12)}
        self.write("a.safetensors", **layers, **moments)
        self.write("b.safetensors", **moments, **{f"m.{key}": w for key, w in layers.items()})
        _, output, _ = self.shardlab("reshard", "--check", "a.safetensors", "b.safetensors")
        self.assertIn("  m.layers.*.w  f32[2]  in B alone, equal to layers.*.w    x 12\n", output)
        self.assertTrue(output.endswith("C --rename '^m.layers.{i}.w -> layers.{i}.w'\n"), output)
        self.fine("reshard", "b.safetensors", "c.safetensors", "--force", "--rename",
                  "^m.layers.{i}.w -> layers.{i}.w")
        self.fine("reshard", "--check", "a.safetensors", "c.safetensors")
        # Nothing is dropped that may be what A has under another name.
        self.write("a.safetensors", a=q, last=ones)
        self.write("b.safetensors", b=([4, 2], range(40, 48)), last=ones)
        _, output, _ = self.shardlab("reshard", "--check", "a.safetensors", "b.safetensors")
        self.assertNotIn("--drop", output)

    def test_parameters_of_a_recording(self):
        recording = str(ROOT / "tests/golden/recordings/llama__2.15.0.json.gz")
        self.write("a.safetensors", w=([2], [1, 2]))
        code, output, _ = self.shardlab(
            "reshard", "--check", "a.safetensors", "--against", recording)
        self.assertEqual(code, 1)
        self.assertIn("in A alone", output)
        self.assertIn("in B alone", output)

    # Lines and elements of a recording.
    def opened(self, name):
        path = ROOT / f"tests/golden/recordings/{name}__2.15.0.json.gz"
        unpack = zlib.decompressobj(31)
        text = unpack.decompress(path.read_bytes())
        return [json.loads(line) for line in text.splitlines()], unpack.unused_data

    # A parameter's numbers, as format.md has the formula.
    @staticmethod
    def numbers(line):
        fill, count = line["fill"], math.prod(line["shape"])
        hashes = ((i + 1) * 7919 + (fill["seed"] + 1) * 104729 + i * i % 251 * 31
                  for i in range(count))
        return [fill["bias"] + fill["scale"] * (h % 509 - 254) / 256 for h in hashes]

    def write_recording(self, name, lines, raw):
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        (self.folder / name).write_bytes(gzip.compress(text.encode()) + raw)

    def test_parameters_from_a_checkpoint(self):
        lines, raw = self.opened("llama")
        given = [line for line in lines if line.get("requires_grad")]
        tensors = {line["name"]: (line["shape"], self.numbers(line)) for line in given}
        self.write("a.safetensors", **tensors, extra=([1], [3]))
        self.fine("reshard", "a.safetensors", "ranks", "--mesh", "dp=3,tp=2", "--plan", "fsdp+tp",
                  "--rename", "layers.{i} -> blocks.{i}")
        # The file alone has no parameters.
        for line in given:
            data = f32(*tensors[line["name"]][1])
            del line["fill"]
            line["checkpoint"] = ["../ranks", line["name"].replace("layers.", "blocks."),
                                  hashlib.sha256(data).hexdigest()]
        (self.folder / "steps").mkdir()
        self.write_recording("steps/referring.json.gz", lines, raw)
        places = [line.pop("checkpoint") for line in given]
        self.write_recording("empty.json.gz", lines, raw)
        whole = str(ROOT / "tests/golden/recordings/llama__2.15.0.json.gz")
        expected = self.fine("replay", whole)
        same = "replay", "steps/referring.json.gz"
        self.assertEqual(self.fine(*same).replace("steps/referring.json.gz", whole), expected)
        rename = "--rename", "blocks.{i} -> layers.{i}"
        code, output, errors = self.shardlab(
            "replay", "empty.json.gz", "--weights", "ranks", *rename)
        self.assertEqual((code, output.replace("empty.json.gz", whole)), (0, expected))
        self.assertEqual(errors, "note: ranks: tensors that no input takes: extra\n"
                         "note: inputs as they were recorded: Llama.tokens, cos, sin\n")
        code, output, _ = self.shardlab("run", "--mesh", "tp=2", "--plan", "megatron",
                                        "steps/referring.json.gz")
        self.assertEqual(code, 0)
        self.assertIn("21 gradients are PyTorch's, 0 differ\n", output)
        # Names, shapes, contents.
        errors = self.refused("replay", "empty.json.gz", "--weights", "ranks")
        self.assertIn("layers.0.attention.wq.weight is not there", errors)
        self.assertIn("tensors that no input takes: blocks.0.", errors)
        tensors["output.weight"] = ([32, 64], tensors["output.weight"][1])
        tensors["norm.weight"] = ([32], range(32))
        self.write("b.safetensors", **tensors)
        errors = self.refused("run", "empty.json.gz", "--weights", "b.safetensors")
        self.assertIn("output.weight is f32[32, 64], and not f32[64, 32]", errors)
        tensors["output.weight"] = ([64, 32], tensors["output.weight"][1])
        self.write("b.safetensors", **tensors)
        code, output, errors = self.shardlab("run", "empty.json.gz", "--weights", "b.safetensors")
        self.assertEqual(code, 0)
        self.assertIn("with other parameters than the recorded ones", errors)
        for line, place in zip(given, places):
            line["checkpoint"] = ["b.safetensors", line["name"], place[2]]
        self.write_recording("other.json.gz", lines, raw)
        errors = self.refused("replay", "other.json.gz")
        self.assertIn("norm.weight has other contents", errors)
        self.assertNotIn("output.weight", errors)
        given[0]["checkpoint"][1] = "embed"
        self.write_recording("other.json.gz", lines, raw)
        self.assertIn("embed is not there", self.refused("replay", "other.json.gz"))
        for line in given:
            line["checkpoint"][0] = "gone"
        self.write_recording("other.json.gz", lines, raw)
        self.assertIn("gone is not there, which has embed", self.refused("replay", "other.json.gz"))
        given[0]["checkpoint"] = "gone"
        self.write_recording("other.json.gz", lines, raw)
        self.assertIn("path, name and sha256", self.refused("replay", "other.json.gz"))
        self.plant(t='[mesh]\ntp = 2\n[inputs]\nx = "f32[2]"\n[program]\ncode = "y = x + 1"\n')
        self.assertIn("is no recording", self.refused("run", "t.toml", "--weights", "ranks"))

    def test_ranks_cut_the_parameters_of_a_checkpoint(self):
        lines, raw = self.opened("ranks/mlp_tp_4")
        given = [line for line in lines if line.get("requires_grad")]
        self.assertTrue(any(line["placements"] != ["R"] for line in given))
        self.write("a.safetensors", **{line["name"]: (line["shape"], self.numbers(line))
                                       for line in given})
        for line in given:
            del line["fill"]
        self.write_recording("empty.json.gz", lines, raw)
        self.assertIn("not in the file", self.refused("replay", "empty.json.gz"))
        code, output, _ = self.shardlab("replay", "empty.json.gz", "--weights", "a.safetensors")
        self.assertEqual(code, 0, output)
        counts = {line["name"]: (line["shape"], range(math.prod(line["shape"]))) for line in given}
        self.write("b.safetensors", **counts)
        self.assertEqual(
            self.shardlab("replay", "empty.json.gz", "--weights", "b.safetensors")[0], 1)

    def test_elements_that_no_piece_has_are_no_input(self):
        self.write("a.safetensors", w=([4, 2], range(8)))
        self.fine("reshard", "a.safetensors", "ranks", "--mesh", "x=2", "--to", "w=[_@x, _]")
        (self.folder / "ranks/shard-00001-model-00001-of-00001.safetensors").unlink()
        self.plant(t='[mesh]\nx = 2\n[inputs]\nw = { type = "f32[4, 2]", file = "ranks" }\n'
                     '[program]\ncode = "y = w"\n')
        self.assertIn("no piece has all of 'w'", self.refused("run", "t.toml"))
        self.assertIn("no piece has all of 'w'", self.refused("reshard", "ranks", "b"))

    def test_inputs_that_a_file_does_not_have(self):
        text = ('[mesh]\nx = 2\n[inputs]\nw = { type = "%s", file = "%s"%s }\n'
                '[program]\ncode = "y = w"\n')
        self.write("a.safetensors", w=([4, 2], range(8)), v=([2], range(2)))
        header = json.dumps({"c": {"dtype": "C64", "shape": [2], "data_offsets": [0, 16]}}).encode()
        (self.folder / "c.safetensors").write_bytes(
            struct.pack("<Q", len(header)) + header + bytes(16))
        for type_text, file, tensor, message in (
                ("f32[4, 2]", "b.safetensors", "w", "b.safetensors cannot be read"),
                ("f32[4, 2]", "a.safetensors", None, "2 tensors, and the input names none"),
                ("f32[4, 2]", "a.safetensors", "x", "2 tensors, and none 'x'"),
                ("i32[4, 2]", "a.safetensors", "w", "is f32, input 'w' is i32"),
                ("f32[2]", "c.safetensors", "c", "is c64, input 'w' is f32")):
            named = f', tensor = "{tensor}"' if tensor else ""
            self.plant(t=text % (type_text, file, named))
            self.assertIn(message, self.refused("run", "t.toml"))
        self.plant(t=text % ("c64[2]", "c.safetensors", ', tensor = "c"'))
        self.fine("run", "t.toml")

    def test_values_of_a_run(self):
        scenario = """
            [mesh]
            x = 2
            [inputs]
            w = {{ type = "f32[3@x, 2]", file = "{file}", tensor = "w" }}
            [program]
            code = '''
            y = w * 2
            loss = y.sum()
            '''
            [expect]
            {expect}
            """
        lines = "\n".join(line.removeprefix(" " * 12) for line in scenario.splitlines())
        self.write("a.safetensors", w=([3, 2], range(6)))
        self.fine("run", "--save", "saved", text=lines.format(file="a.safetensors", expect=""))
        found = {}
        for path in sorted((self.folder / "saved").iterdir()):
            for name, (_, _, data) in stored(path)[0].items():
                found[name] = found.get(name, b"") + data
        self.assertEqual(found["y"], f32(0, 2, 4, 6, 8, 10))
        self.assertEqual(found["loss"], f32(30))
        expect = 'checkpoint = "saved"'
        again = self.fine("run", text=lines.format(file="a.safetensors", expect=expect))
        self.assertIn("met  checkpoint", again)
        self.assertIn("is there already", self.refused("run", "--save", "saved", "t.toml"))
        self.write("b.safetensors", y=([3, 2], [0, 2, 4, 6, 8, 11]))
        text = lines.format(file="a.safetensors", expect='checkpoint = "b.safetensors"')
        code, output, _ = self.shardlab("run", text=text)
        self.assertEqual(code, 1)
        self.assertIn("'y' f32[3, 2] has other elements, 1 of them", output)
        self.fine("run", text=text + "tolerance = { f32 = 0.2 }\n")
        self.plant(t=lines.format(file=CORPUS / "fsdp_4_empty", expect=""))
        self.assertIn("'w' of", self.refused("run", "t.toml"))
        lines = lines.replace("3@x, 2", "5@x, 3")
        self.plant(t=lines.format(file=CORPUS / "fsdp_4_empty", expect=""))
        self.fine("run", "t.toml")

    def test_memory_is_that_of_two_tensors(self):
        count, size = 8, 1 << 22
        header, body = {}, b"\x01\x02\x03\x04" * size
        for i in range(count):
            header[f"w{i}"] = {"dtype": "F32", "shape": [1024, size // 1024],
                               "data_offsets": [i * 4 * size, (i + 1) * 4 * size]}
        text = json.dumps(header).encode()
        with open(self.folder / "a.safetensors", "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for _ in range(count):
                file.write(body)
        limit = 2 * 4 * size + (64 << 20)
        for arguments in (("--check", "a.safetensors", "a.safetensors"),
                          ("a.safetensors", "b", "--mesh", "x=2", "--to", "w*=[_, _@x]"),
                          ("a.safetensors", "c", "--swap", "w* = 1, 1024, 64, 64")):
            with subprocess.Popen([PROGRAM, "reshard", *arguments], cwd=self.folder,
                                  stdout=subprocess.DEVNULL) as done:
                _, status, usage = os.wait4(done.pid, 0)
                done.returncode = status
            self.assertEqual(status, 0)
            self.assertLess(usage.ru_maxrss * 1024, limit, arguments)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
