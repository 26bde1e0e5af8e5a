#!/usr/bin/env python3
"""Programs of torch.export.save: outputs and gradients are those that PyTorch itself gave, on one
rank and on any mesh; what is damaged or not read is refused with its node.

    exported_test.py PROGRAM EXPORTED
"""

import json
import math
import pathlib
import sys
import unittest
import zipfile

import program

EXPORTED = pathlib.Path(sys.argv[2]).resolve()
FILES = {path.name.split("__")[0]: path for path in EXPORTED.glob("*.pt2")}


def flat(value):
    return [x for item in value for x in flat(item)] if isinstance(value, list) else [float(value)]


class Exported(program.Program):
    def refused(self, *arguments):
        code, output, errors = self.shardlab(*arguments)
        self.assertEqual((code, output), (2, ""), errors)
        self.assertEqual(errors.count("error:"), 1, errors)
        self.assertIn("  fix         ", errors)
        return errors

    def changed(self, name, change=None, files=None, compress=zipfile.ZIP_STORED):
        """The program with `change(model.json)` and `files(names and bytes)` done to it: x.pt2."""
        with zipfile.ZipFile(FILES[name]) as archive:
            all_files = {info.filename: archive.read(info) for info in archive.infolist()}
        path = next(file for file in all_files if file.endswith("models/model.json"))
        model = json.loads(all_files[path])
        if change:
            change(model)
        all_files[path] = json.dumps(model).encode()
        if files:
            files(all_files)
        with zipfile.ZipFile(self.folder / "x.pt2", "w", compress) as archive:
            for file, data in all_files.items():
                archive.writestr(file, data)
        return "x.pt2"

    def same(self, name, wanted, value):
        (value,) = value["whole"]
        self.assertEqual(value["shape"], wanted["shape"], name)
        ours = flat(value["elements"])
        sums = [sum(ours), sum(x * (i % 7 + 1) for i, x in enumerate(ours)),
                sum(x * x for x in ours)]
        size = max(1e-3, sum(abs(x) for x in ours))
        scales = [size, 7 * size, max(1e-6, sums[2])]
        for got, expected, scale in zip(sums, wanted["sums"], scales):
            self.assertTrue(math.isclose(got, expected, rel_tol=0, abs_tol=2e-5 * scale),
                            f"{name}: {sums}, PyTorch has {wanted['sums']}")

    def run_of(self, path, answer, *options):
        sizes = [word for symbol, size in answer["sizes"].items()
                 for word in ("--set", f"{symbol}={size}")]
        code, output, errors = self.shardlab(
            "run", "--json", "--values", "all", str(path), "--backward", answer["backward"], *sizes,
            *options)
        self.assertEqual(code, 0, output[:2000] + errors)
        run = json.loads(output)
        self.assertTrue(run["ok"], errors)
        return {value["name"]: value for value in run["values"]}

    def holds(self, path, answer, *options):
        values = self.run_of(path, answer, *options)
        for name, wanted in answer["outputs"].items():
            self.same(name, wanted, values[name])
        for name, wanted in answer["gradients"].items():
            self.same(name, wanted, values[name.replace(".", "_") + ".grad"])

    def test_outputs_and_gradients_are_those_of_pytorch(self):
        self.assertGreaterEqual(len(FILES), 4)
        for name, path in FILES.items():
            for answer in json.loads(path.with_suffix(".json").read_text()):
                with self.subTest(name=name, sizes=answer["sizes"]):
                    self.holds(path, answer)
                    self.holds(path, answer, "--dtype", "f64")

    def test_any_mesh_gives_the_same(self):
        for name, mesh, plan in (
            ("llama", "tp=2", "megatron"), ("llama", "dp=2,tp=2", "sequence"),
            ("llama", "x=3", "fsdp"), ("mlp", "dp=2,tp=4", "megatron"), ("mlp", "a=2,b=2", "hsdp"),
            ("mlp", "dp=3,tp=2", "fsdp+tp"), ("net", "dp=2", "replicate"), ("net", "x=3", "fsdp"),
            ("sizes", "dp=2", "replicate"),
        ):
            for answer in json.loads(FILES[name].with_suffix(".json").read_text()):
                with self.subTest(name=name, mesh=mesh, plan=plan, sizes=answer["sizes"]):
                    self.holds(FILES[name], answer, "--mesh", mesh, "--plan", plan)

    def test_a_scenario_a_graph_and_a_replay(self):
        (self.folder / "m.pt2").write_bytes(FILES["sizes"].read_bytes())
        sizes = ["--set", "s18=4", "--set", "s22=7"]
        code, text, _ = self.shardlab(
            "run", "--toml", "m.pt2", *sizes, "--mesh", "dp=2", "--plan", "replicate",
            "--backward", "pow_1")
        self.assertEqual(code, 0)
        self.assertRegex(self.fine("run", "--summary", text=text), r"ok .* 2 ranks, \d+ values ver")
        code, text, errors = self.shardlab(
            "trace", "m.pt2", *sizes, "--mesh", "dp=2", "--plan", "replicate")
        self.assertEqual(code, 0, errors)
        self.assertRegex(text.splitlines()[-1], "^ok .* same on 2 ranks, replay bitwise")
        report = json.loads(self.fine("replay", "--json", "m.pt2", *sizes))
        self.assertEqual((report["ok"], report["differ"], report["unknown"] > 15), (True, 0, True))

    def test_what_a_replay_finds_is_another_shape(self):
        def change(model):
            graph = model["graph_module"]["graph"]
            graph["tensor_values"]["relu"]["sizes"][1]["as_int"] = 5
        code, output, _ = self.shardlab("replay", self.changed("net", change))
        self.assertEqual(code, 1)
        self.assertRegex(output, r"FAIL event \d+  export.py:\d+  aten.relu.default  out\[0\]")

    def test_what_is_not_read_is_refused_with_its_node_and_place(self):
        def node(model, at=4):
            return model["graph_module"]["graph"]["nodes"][at]

        def op(model):
            node(model)["target"] = "torch.ops.aten.liinear.default"

        def nested(model):
            node(model)["target"] = "torch.ops.higher_order.cond"

        def of_others(model):
            node(model)["target"] = "torch.ops.mine.linear.default"

        def python(model):
            node(model)["target"] = "_operator.getitem"

        def kind(model):
            node(model)["inputs"][0]["arg"] = {"as_graph": {"name": "g", "graph": {}}}

        def unknown_kind(model):
            node(model)["inputs"][0]["arg"] = {"as_later": 1}

        def argument(model):
            node(model)["inputs"][0]["name"] = "inputs"

        def tensor(model):
            node(model)["inputs"][0]["arg"]["as_tensor"]["name"] = "nothing"

        def result(model):
            node(model)["outputs"] = [{"as_custom_obj": {"name": "x", "class_fqn": "y"}}]

        def dtype(model):
            node(model)["inputs"][0]["arg"] = {"as_scalar_type": 28}

        place = r"node 5 linear \(up  export.py:\d+\), "
        for change, what in (
            (op, "no such op"), (nested, "a program inside of the program"), (of_others, "no such"),
            (python, "no such op"), (kind, "of the kind as_graph"), (unknown_kind, "kind as_later"),
            (argument, "takes no argument 'inputs'"), (tensor, "the tensor 'nothing'"),
            (result, "of the kind as_custom_obj"), (dtype, "dtype 28"),
        ):
            with self.subTest(change=change.__name__):
                errors = self.refused("run", self.changed("mlp", change))
                self.assertRegex(errors, place)
                self.assertIn(what, errors)
                self.assertEqual(errors, self.refused("replay", "x.pt2"))

    def test_other_schemas_sizes_and_inputs_are_refused(self):
        def newer(model):
            model["schema_version"] = {"major": 9, "minor": 0}

        def older(model):
            model["schema_version"] = {"major": 6, "minor": 1}

        def script(model):
            model["graph_module"]["signature"]["input_specs"][0] = {
                "custom_obj": {"arg": {"name": "o", "class_fqn": "c"}, "custom_obj_name": "o"}}

        def function(model):
            sizes = model["graph_module"]["graph"]["tensor_values"]["tokens"]["sizes"]
            sizes[0]["as_expr"]["expr_str"] = "ModularIndexing(Symbol('s24'), Integer(2))"

        def deep(model):
            sizes = model["graph_module"]["graph"]["tensor_values"]["tokens"]["sizes"]
            sizes[0]["as_expr"]["expr_str"] = "Add(" * 5000

        def unbound(model):
            sizes = model["graph_module"]["graph"]["tensor_values"]["tokens"]["sizes"]
            sizes[1] = {"as_expr": {"expr_str": "Symbol('u0', integer=True)", "hint": None}}

        def nothing(model):
            del model["graph_module"]["graph"]["tensor_values"]["gelu"]

        for change, what in (
            (newer, "schema 9.0, and this shardlab reads 7 and 8"), (older, "schema 6.1"),
            (script, "an input of the kind custom_obj"), (function, "ModularIndexing"),
            (deep, "is no size"), (unbound, "u0 is a number that data has"),
            (nothing, "'gelu' is not described"),
        ):
            with self.subTest(change=change.__name__):
                self.assertIn(what, self.refused("run", self.changed("mlp", change)))
        path = str(FILES["mlp"])
        self.assertIn("at most 64", self.refused("run", path, "--set", "s24=65"))
        errors = self.refused("run", path, "--backward", "cross_entropy_los")
        self.assertIn("did you mean 'cross_entropy_loss'?", errors)

    def test_damaged_archives_are_refused(self):
        whole = FILES["llama"].read_bytes()
        for length in (30, len(whole) // 2, len(whole) - 1):
            (self.folder / "cut.pt2").write_bytes(whole[:length])
            self.assertIn("cut short or damaged", self.refused("run", "cut.pt2"))
        at = whole.index(b"models/model.json") + 500
        (self.folder / "bit.pt2").write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1:])
        self.assertIn("model.json is damaged", self.refused("run", "bit.pt2"))

        def lost(files):
            del files[next(f for f in files if f.endswith("weights/weight_2"))]

        def short(files):
            name = next(f for f in files if f.endswith("weights/weight_2"))
            files[name] = files[name][:-4]

        def foreign(files):
            del files[next(f for f in files if f.endswith("model.json"))]

        def big(files):
            files[next(f for f in files if f.endswith("byteorder"))] = b"big"

        for change, what in ((lost, "is not in the archive"),
                             (short, "up.weight: x.pt2: elements are outside of their bytes: "
                                     "it is cut short"),
                             (foreign, "no program of torch.export in it"), (big, "big-endian")):
            with self.subTest(change=change.__name__):
                self.assertIn(what, self.refused("run", self.changed("mlp", files=change)))
        self.changed("mlp", compress=zipfile.ZIP_BZIP2)
        self.assertIn("compressed by method 12", self.refused("run", "x.pt2"))
        with zipfile.ZipFile(self.folder / "old.pt2", "w") as archive:
            archive.writestr("serialized_exported_program.json", "{}")
        self.assertIn("PyTorch 2.8 or later", self.refused("run", "old.pt2"))

    def test_an_archive_with_sizes_of_64_bits(self):
        limit, zipfile.ZIP64_LIMIT = zipfile.ZIP64_LIMIT, 100
        self.addCleanup(setattr, zipfile, "ZIP64_LIMIT", limit)
        path = self.changed("net")
        self.assertIn(b"PK\x06\x06", (self.folder / path).read_bytes())
        self.holds(path, json.loads(FILES["net"].with_suffix(".json").read_text())[0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
