#!/usr/bin/env python3
"""Training steps recorded in PyTorch: every result is compared with the recorded one, a planted
mistake is found at its place, and a damaged file is refused with its event.

    step_test.py PROGRAM RECORDINGS
"""

import gzip
import json
import pathlib
import re
import sys
import unittest
import zlib

import program

RECORDINGS = pathlib.Path(sys.argv[2]).resolve()
BEHAVIOUR = RECORDINGS.parents[1] / "behaviour.md"
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
    """With a fingerprint that is finite."""
    return (value is not None and value.get("dtype") in ("f32", "bf16", "f64")
            and "fp" in value
            and not isinstance(value["fp"][1], str))


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
        self.assertGreaterEqual(len(FILES), 9)
        for path in FILES:
            if path.name.startswith("shapes"):
                continue
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

    def test_what_pytorch_itself_computes_wrongly_is_told_apart(self):
        for path, op, row in (
            (next(f for f in FILES if f.name.startswith("gammas__")), "_standard_gamma_grad",
             "X-70"),
            (next(RECORDINGS.glob("ranks/gathered_2__*")), "gather", "X-68"),
        ):
            with self.subTest(op=op):
                report = json.loads(self.fine("replay", "--json", str(path)))
                (found,) = report["reference"]
                self.assertEqual((report["differ"], report["rules"]), (0, []))
                self.assertEqual(found["op"], f"aten.{op}.default")
                self.assertTrue(found["known"].startswith(row + ": "))
                self.assertIn(f"| {row} |", BEHAVIOUR.read_text())
        # A derivative by mpmath: the sum over 3.5, 3.4, 3.3, 3.2 for a shape of 9.
        ours = json.loads(json.loads(self.fine("replay", "--json", str(next(
            f for f in FILES if f.name.startswith("gammas__")))))["reference"][0]["got"])
        self.assertAlmostEqual(ours[0], 2.385623502896, delta=5e-7)

    def test_more_than_pytorch_is_known_to_be_off_by_is_a_wrong_value(self):
        def change(events):
            op = next(e for e in events if "_standard_gamma_grad" in e.get("op", ""))
            op["out"][0]["fp"] = [x * 1.001 for x in op["out"][0]["fp"]]
        code, output, _ = self.shardlab("replay", self.changed("gammas", change))
        self.assertEqual(code, 1)
        self.assertRegex(output, r"FAIL event \d+ .* aten._standard_gamma_grad.default  out\[0\]")

    def test_an_op_that_does_not_exist_is_named(self):
        def change(events):
            op = next(e for e in events if e["k"] == "local_op" and e["op"] == "aten.silu.default")
            op["op"] = "aten.sillu.default"
        code, output, _ = self.shardlab("replay", self.changed("llama", change))
        self.assertEqual(code, 0)  # nothing is known to be wrong
        self.assertIn("aten.sillu.default does not exist here", output)
        self.assertRegex(output, r"not judged: \d+ ops")

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

        def no_results(events):
            del op(events)["out"]

        def no_name(events):
            op(events)["op"] = "aten._.default"

        def no_words(events):
            op(events)["args"].append({"f": 2.5})

        def no_text(events):
            op(events)["node"] = 3

        for change in (unknown_value, later_value, unknown_kind, no_dtype, negative, huge, beyond,
                       no_key, no_place, no_results, no_name, no_words, no_text):
            with self.subTest(change=change.__name__):
                errors = self.refused("replay", self.changed("llama", change))
                self.assertRegex(errors, r"x.json.gz: event \d+")

    def test_a_replay_without_memory_names_the_event_and_tells_no_difference(self):
        path = next(file for file in FILES if file.name.startswith("llama__"))
        for memory, place in ("1KiB", "tok_embeddings.weight"), ("200KiB", "layers.0"):
            errors = self.refused("replay", path, "--memory", memory)
            self.assertRegex(errors, r"error: device cpu cannot allocate \d+ bytes")
            self.assertRegex(errors, rf"\n  event       \d+  {place}")

    def test_what_the_recorder_could_not_see_is_refused_by_name(self):
        def change(events):
            events[-1]["refused"] = {"a transform of torch.func": [3, "train.py:12"]}
        errors = self.refused("replay", self.changed("llama", change))
        self.assertIn("a transform of torch.func at train.py:12", errors)

    def test_a_step_runs_on_other_meshes_with_every_gradient_verified(self):
        for name, plan, mesh in (
            ("llama", "megatron", "tp=4"), ("llama", "megatron", "dp=2,tp=4"),
            ("llama", "sequence", "tp=3"), ("llama", "fsdp", "a=2,b=2,c=2"),
            ("llama_gqa", "fsdp+tp", "dp=2,tp=4"), ("llama_gqa", "megatron", "tp=3"),
            ("gpt", "megatron", "tp=4"), ("gpt", "hsdp", "a=2,b=2"), ("gpt", "fsdp", "x=3"),
            ("two_batches", "fsdp", "dp=4"), ("two_batches", "megatron", "tp=3"),
            ("convolutions", "replicate", "dp=4"), ("convolutions", "fsdp", "x=3"),
            ("bf16", "sequence", "dp=2,tp=2"), ("written", "fsdp+tp", "dp=2,tp=3"),
            ("written", "replicate", "dp=4"), ("preferences", "fsdp+tp", "dp=2,tp=2"),
            ("residual", "fsdp", "dp=4"), ("experts", "megatron", "dp=2,tp=2"),
            ("experts", "hsdp", "a=2,b=2"), ("adversaries", "fsdp+tp", "dp=2,tp=2"),
            ("masked", "fsdp", "dp=4"), ("masked", "megatron", "dp=2,tp=2"),
            ("autocast", "megatron", "dp=2,tp=2"), ("autocast", "fsdp+tp", "dp=2,tp=2"),
            ("ascent", "fsdp", "dp=4"), ("ascent", "megatron", "dp=2,tp=2"),
            ("drawn_inside", "fsdp+tp", "dp=2,tp=2"), ("drawn_inside", "sequence", "tp=3"),
            ("constant", "hsdp", "a=2,b=2"), ("constant", "replicate", "dp=3"),
            ("jumps", "megatron", "tp=2"),
            ("choices", "fsdp", "tp=3"), ("choices", "fsdp+tp", "dp=2,tp=2"),
            ("time_first", "sequence", "dp=2,tp=2"), ("time_first", "fsdp", "dp=4"),
            ("own_gradients", "megatron", "dp=2,tp=2"), ("own_gradients", "fsdp", "x=3"),
            ("picked", "sequence", "tp=4"), ("picked", "fsdp+tp", "dp=2,tp=2"),
            ("turned", "fsdp", "dp=3"), ("standard", "megatron", "tp=3"),
            ("fused", "megatron", "tp=3"), ("fused", "megatron", "tp=2"),
            ("flattened", "megatron", "tp=2"), ("flattened", "fsdp", "dp=4"),
            ("own_gradients", "sequence", "tp=4"), ("roots", "hsdp", "a=2,b=2"),
            ("roots", "replicate", "dp=4"), ("roots", "fsdp+tp", "dp=2,tp=3"),
            ("leaves", "fsdp", "dp=3"), ("leaves", "megatron", "dp=2,tp=2"),
            ("next_token", "fsdp", "dp=2"), ("next_token", "megatron", "dp=2,tp=2"),
            ("kept", "fsdp", "dp=2"), ("kept", "megatron", "dp=2,tp=2"),
            ("clamped", "fsdp", "dp=3"), ("clamped", "megatron", "tp=3"),
            ("started", "fsdp", "dp=3"), ("started", "megatron", "tp=3"),
            ("started", "sequence", "tp=4"),
        ):
            with self.subTest(name=name, plan=plan, mesh=mesh):
                path = next(f for f in FILES if f.name.startswith(name + "__"))
                textbook = plan == "megatron" and mesh == "tp=4"
                options = ["--no-optimizer"] if textbook else []
                code, output, errors = self.shardlab(
                    "run", "--json", str(path), "--mesh", mesh, "--plan", plan, *options)
                run = json.loads(output)
                self.assertEqual((code, run["ok"]), (0, True), errors)
                events = taken_apart(path)[0]
                steps = [i for i, e in enumerate(events) if e.get("pass") == "opt"]
                graded = {e["name"] for e in events[:steps[0] if steps else None]
                          if e["k"] == "check" and e.get("pass") == "bwd"}
                wanted = sum(e["k"] in ("input", "const") and e.get("requires_grad", False)
                             and e.get("name", f"v{e['v']}") + ".grad" in graded for e in events)
                wanted += sum(f"v{v}.grad" in graded for e in events for v in e.get("leaves", []))
                gradients = [v for v in run["values"] if v["name"].endswith(".grad")]
                self.assertEqual(len(gradients), wanted)
                if textbook:
                    # Forward the embedding and two a layer, backward two a layer and the head.
                    counts = run["collectives"]["largest_rank"]["all_reduce"]
                    self.assertEqual(counts, {"backward": 5, "forward": 5})

    def test_one_rank_has_the_gradients_of_the_recording(self):
        for name, gradients in (("llama", 21), ("gpt", 28), ("two_batches", 4),
                                ("convolutions", 9), ("written", 9), ("preferences", 15),
                                ("residual", 9), ("experts", 21), ("adversaries", 4),
                                ("masked", 17), ("own_gradients", 7), ("roots", 10),
                                ("clamped", 4), ("started", 9),
                                ("kept", 21)):  # two are rounding alone
            with self.subTest(name=name):
                path = next(f for f in FILES if f.name.startswith(name + "__"))
                code, output, _ = self.shardlab("run", "--summary", str(path))
                self.assertEqual(code, 0, output)
                first = output.splitlines()[0]
                after = "" if name in ("written", "experts") else r", \d+ parameters after the step"
                self.assertRegex(first, rf"^self-test on one rank: \d+ values{after} and "
                                        rf"{gradients} gradients are PyTorch's, 0 differ")

    def test_an_optimizer_runs_on_another_mesh(self):
        for name, count, mesh, plan in (
                ("llama", 21, "dp=2,tp=2", "fsdp+tp"), ("gpt", 28, "tp=3", "megatron"),
                ("two_batches", 4, "a=2,b=2", "hsdp"), ("llama_gqa", 12, "x=3", "fsdp"),
                ("convolutions", 10, "dp=2", "replicate")):
            with self.subTest(name=name):
                path = str(next(f for f in FILES if f.name.startswith(name + "__")))
                code, output, errors = self.shardlab(
                    "run", "--json", path, "--mesh", mesh, "--plan", plan)
                run = json.loads(output)
                self.assertEqual((code, run["ok"]), (0, True), errors)
                after = [v for v in run["values"] if v["name"].endswith("_after")]
                self.assertEqual(len(after), count)

    def test_a_wrong_rate_of_the_optimizer_is_found(self):
        def change(events):
            update = next(e for e in events if e["k"] == "local_op" and e.get("pass") == "opt"
                          and e["op"] == "aten.addcdiv_.default")
            update["kwargs"]["value"] *= 40
        code, _, errors = self.shardlab("run", self.changed("llama", change))
        self.assertEqual(code, 1)
        self.assertRegex(errors, r"FAIL event \d+ .*_after")

    def test_an_optimizer_that_takes_a_gradients_number_is_left_out(self):
        def change(events):
            at = next(i for i, e in enumerate(events) if e.get("op") == "aten.mul_.Tensor"
                      and e.get("pass") == "opt")
            norm = next(e for e in events if e.get("op") == "aten._foreach_norm.Scalar")
            events.insert(at, {"k": "local_op", "pass": "opt", "p": 0,
                               "op": "aten._local_scalar_dense.default",
                               "args": [{"v": norm["out"][0]["v"]}], "out": [{"scalar": 3.25}]})
            events[at + 1]["args"][1] = 3.25
        code, _, errors = self.shardlab("run", "--summary", self.changed("llama", change))
        self.assertEqual(code, 0, errors)
        self.assertRegex(errors, r"note: the optimizer is left out: it takes a number of a "
                                 r"gradient, in aten.mul_.Tensor at programs.py:\d+")

    def test_everything_that_is_floating_runs_in_f64(self):
        for name in ("llama", "bf16"):
            path = str(next(f for f in FILES if f.name.startswith(name + "__")))
            code, output, errors = self.shardlab(
                "run", "--json", path, "--mesh", "tp=2", "--plan", "megatron", "--dtype", "f64")
            run = json.loads(output)
            self.assertEqual((code, run["ok"]), (0, True), errors)
            types = {v["type"].split("[")[0] for v in run["values"] if "type" in v}
            self.assertFalse(types & {"f32", "bf16"}, types)
        self.assertIn("--dtype f64", self.refused("run", path, "--dtype", "i32"))

    PLAN = """
[modules]
"tok_embeddings" = { style = "RowwiseParallel", output_layouts = "Shard(1)" }
"layers.*_norm" = "SequenceParallel"
"norm" = "SequenceParallel"
"layers.*.attention" = { style = "PrepareModuleInput", desired_input_layouts = ["Replicate()"] }
"layers.*.feed_forward" = { style = "PrepareModuleInput", desired_input_layouts = "Replicate" }
"layers.*.w*" = "ColwiseParallel"
"layers.*.wo" = { style = "RowwiseParallel", output_layouts = "Shard(1)" }
"layers.*.w2" = { style = "RowwiseParallel", output_layouts = "Shard(1)" }
"output" = { style = "ColwiseParallel", output_layouts = "Replicate" }
"""

    def test_a_plan_file_says_what_parallelize_module_does(self):
        """The collectives are those that PyTorch made of this plan, and of the plan by name."""
        path = str(next(f for f in FILES if f.name.startswith("llama__")))
        (self.folder / "plan.toml").write_text(self.PLAN, encoding="utf-8")
        counts = []
        for option in (("--place-file", "plan.toml"), ("--plan", "sequence")):
            code, output, errors = self.shardlab(
                "run", "--json", "--no-optimizer", path, "--mesh", "tp=4", *option)
            run = json.loads(output)
            self.assertEqual((code, run["ok"]), (0, True), errors)
            counts.append(run["collectives"]["largest_rank"])
        # Two reduce_scatters a layer, and the table's; the head gathers its operands and results.
        self.assertEqual([x["reduce_scatter"]["forward"] for x in counts], [5, 5])
        self.assertEqual(counts[0]["all_gather"]["forward"], 6)

    def test_the_sequence_is_the_dim_along_which_attention_mixes(self):
        for name, sequence, tokens in (("time_first", 0, "i64[4, 4@dp]"),
                                       ("llama", 1, "i64[4@dp, 16]"),
                                       ("gpt", 1, "i64[4@dp, 16]")):
            path = str(next(f for f in FILES if f.name.startswith(name + "__")))
            text = self.fine("run", "--toml", path, "--mesh", "dp=2,tp=2", "--plan", "sequence")
            cut = re.findall(r"redistribute\(tp=(S\(\d\))\)", text)
            self.assertEqual(set(cut), {f"S({sequence})"})
            self.assertEqual(len(cut), 5, text)  # two a layer, and the table of words
            self.assertIn(tokens, text)
        # Ranks that have other columns of a batch need no collective but for the loss, whose sum
        # and count are two.
        path = str(next(f for f in FILES if f.name.startswith("time_first__")))
        output = self.fine("run", "--json", "--no-optimizer", path, "--mesh", "dp=2", "--plan",
                           "replicate")
        counts = json.loads(output)["collectives"]["largest_rank"]
        self.assertEqual(sum(one.get("forward", 0) for one in counts.values()), 2)

    def test_all_plans_of_llama_hold_on_meshes_of_one_to_three_dims(self):
        path = str(next(f for f in FILES if f.name.startswith("llama__")))
        for mesh in ("tp=4", "dp=2,tp=4", "tp=3", "a=2,b=2,c=2"):
            for plan in ("megatron", "sequence", "fsdp", "hsdp", "fsdp+tp", "replicate"):
                with self.subTest(mesh=mesh, plan=plan):
                    code, output, errors = self.shardlab(
                        "run", "--json", path, "--mesh", mesh, "--plan", plan)
                    self.assertEqual(code, 0, errors)
                    names = [value["name"] for value in json.loads(output)["values"]]
                    for end in (".grad", "_after"):
                        self.assertEqual(sum(name.endswith(end) for name in names), 21)

    def test_every_plan_is_a_row_of_one_table(self):
        path = next(file for file in FILES if file.name.startswith("two_batches__"))
        plans = ["megatron", "sequence", "fsdp", "hsdp", "fsdp+tp", "replicate"]
        code, output, errors = self.shardlab("run", path, "--mesh", "dp=2,tp=2", "--plan", "all")
        self.assertEqual((code, errors), (0, ""), output)
        self.assertEqual(output.count("self-test"), 1)
        title, *rows = output.rpartition("\n\n")[2].splitlines()
        self.assertEqual(title.split(), [path.name, "collectives", "sent", "predicted", "peak"])
        self.assertEqual([row.split()[:2] for row in rows], [[f"plan={x}", "ok"] for x in plans])
        for plan, row in zip(plans, rows):  # the figures of each plan alone
            _, alone, _ = self.shardlab("run", path, "--mesh", "dp=2,tp=2", "--plan", plan,
                                        "--summary")
            count, sent, us = re.search(
                r"collectives of rank 0: (\d+), (.*) sent, (.*) predicted", alone).groups()
            held = re.search(r"held at most (\S+ \S+) ", alone)[1]
            self.assertEqual(re.split(r"  +", row)[2:], [count, sent, us, held])

    def test_a_plan_that_cannot_be_is_a_row_with_its_reason(self):
        path = next(file for file in FILES if file.name.startswith("llama__"))
        code, output, errors = self.shardlab("run", path, "--mesh", "tp=3", "--plan", "all",
                                             "--place", "no.such=[_]")
        self.assertEqual((code, output), (2, ""), errors)
        self.assertEqual(errors.count("error:"), 1, errors)

    def test_data_without_a_name_is_called_as_its_call_calls_it(self):
        for name, line in (("gpt", r'h_0_drop_drawn = .*  # h\.0\.drop  \S*programs\.py:\d+'),
                           ("experts", r'target = \{ .*  # \S*programs\.py:\d+')):
            path = str(next(f for f in FILES if f.name.startswith(name + "__")))
            self.assertRegex(self.fine("run", "--toml", path), "(?m)^" + line + "$")
        placed = self.fine(
            "run", "--toml", path, "--mesh", "dp=2", "--place", "target=[_@dp, _, _]")
        self.assertIn('target = { type = "f32[4@dp, 6, 5]"', placed)

    def test_wrong_plan_files_are_refused(self):
        path = str(next(f for f in FILES if f.name.startswith("llama__")))
        for text, told in (
                ('[modules]\n"output" = "ColwisParallel"', "ColwiseParallel"),
                ('[modules]\n"outputs" = "ColwiseParallel"', "output"),
                ('[modules]\n"norm" = "ColwiseParallel"', "no linear layer"),
                ('[modules]\n"output" = { style = "ColwiseParallel", outputs = 1 }', "outputs"),
                ('[modules]\n"output" = { style = "ColwiseParallel", output_layouts = "S" }',
                 "no layout"),
                ('[modules]\n"norm" = "PrepareModuleInput"', "desired_input_layouts"),
                ('dim = "x"\n[modules]\n"norm" = "SequenceParallel"', "no dim 'x'"),
                ('[module]\n', "no section 'module'"), ('[weights]\n"a" = "[_"', "brackets"),
                ('modules = 3', "no section"), ("[modules", "plan.toml:1")):
            with self.subTest(text=text):
                (self.folder / "plan.toml").write_text(text, encoding="utf-8")
                errors = self.refused("run", path, "--mesh", "tp=2", "--place-file", "plan.toml")
                self.assertIn(told, errors)
        self.assertIn("no.toml",
                      self.refused("run", path, "--mesh", "tp=2", "--place-file", "no.toml"))

    def test_pieces_that_data_has_sized_are_not_taken_to_ranks(self):
        def read(events, number, op, position):
            at = next(i for i, e in enumerate(events) if e["k"] == "call"
                      and e["op"] == op and i > 20)
            call = events[at]
            call["args"][position] = number
            events.insert(at, {"k": "read", "in": [call["args"][0]["v"]], "p": 0,
                               "out": [{"scalar": [number, 1, 3.5]}]})

        def sized(events):
            read(events, 4, "aten.slice.Tensor", 3)
        name = self.changed("llama", sized)
        self.assertRegex(
            self.refused("run", name, "--mesh", "tp=2", "--plan", "megatron"),
            r"4 of tolist at programs.py:\d+ is a number of the program: aten.slice.Tensor at "
            r"layers.0.attention  programs.py:\d+ takes it")

    def test_recordings_of_other_releases(self):
        files = sorted((RECORDINGS / "releases").glob("*.json.gz"))
        self.assertEqual(len(files), 16)
        for path in files:
            with self.subTest(path=path.name):
                report = json.loads(self.fine("replay", "--json", str(path)))
                self.assertEqual((report["differ"], report["missing"], report["skipped"]),
                                 (0, [], 0))
                output = self.fine("run", "--summary", str(path), "--mesh", "dp=2", "--plan",
                                   "replicate")
                self.assertIn("gradients are PyTorch's, 0 differ", output)

    def test_shapes_run_on_many_ranks(self):
        path = str(next(f for f in FILES if f.name.startswith("shapes__")))
        self.assertRegex(self.fine("replay", path), r"0 results agree, 0 differ, \d+ without")
        output = self.fine("run", "--summary", path, "--mesh", "dp=4,tp=512", "--plan", "megatron")
        self.assertRegex(output, r"ok .* 2048 ranks in \d+ class")

    def test_the_contract_of_other_recorders_is_read(self):
        """Without events of our own: backward begins where a 1 is made; the end is not counted."""
        path = next(f for f in FILES if f.name.startswith("two_batches__"))
        events, raw = taken_apart(path)
        events = [e for e in events if e["k"] not in ("backward", "check")]
        events[-1]["events"] = len(events) - 1
        put_together(self.folder / "x.json.gz", events, raw)
        self.assertIn(" 0 differ", self.fine("replay", "x.json.gz"))
        code, run, _ = self.shardlab("run", "--summary", "x.json.gz", "--mesh", "tp=2", "--plan",
                                     "megatron")
        self.assertEqual(code, 0)
        self.assertIn("0 differ", run)

    def test_a_wrong_gradient_is_found(self):
        def change(events):
            check = next(e for e in events if e["k"] == "check" and e.get("pass") == "bwd"
                         and e["name"] == "layers.0.attention.wq.weight.grad")
            check["fp"] = [x + 0.02 for x in check["fp"]]
        code, output, errors = self.shardlab("run", self.changed("llama", change))
        self.assertEqual((code, output), (1, ""))
        self.assertRegex(errors, r"FAIL event \d+  layers.0.attention.wq  programs.py:\d+  "
                                 r"aten.linear.default  layers_0_attention_wq_weight.grad")

    def test_a_wrong_rule_of_an_own_gradient_is_found(self):
        def factor(events, op, position, was, now):
            found = [e for e in events if e["k"] == "local_op" and "f" in e and e["op"] == op
                     and e["args"][position] == was]
            self.assertTrue(found)
            found[0]["args"][position] = now

        def unmarked(events):
            """The operand in place of the result that has its elements."""
            for event in events:
                if event["k"] == "call" and event["args"] and isinstance(event["args"][-1], dict):
                    for argument in event["args"]:
                        if isinstance(argument, dict):
                            argument.pop("f", None)

        for change in (lambda events: factor(events, "aten.mul.Tensor", 1, -0.3, 0.3),
                       lambda events: factor(events, "aten.mul.Tensor", 1, 0.5, 0.25),
                       lambda events: factor(events, "aten.clamp.default", 1, -1, 0), unmarked):
            code, output, errors = self.shardlab("run", self.changed("own_gradients", change))
            self.assertEqual((code, output), (1, ""))
            self.assertRegex(errors, r"FAIL event \d+  up  programs.py:\d+  aten.linear.default")

    def test_a_wrong_gradient_of_a_gradient_is_found(self):
        def change(events):
            taken = next(e for e in events if e["k"] == "gradients")
            taken["out"][0]["fp"] = [x * 1.02 for x in taken["out"][0]["fp"]]
        code, _, errors = self.shardlab("run", self.changed("roots", change))
        self.assertEqual(code, 1)
        self.assertRegex(errors, r"FAIL event \d+  programs.py:\d+  gradient  gradient")

    def test_gradients_that_a_hook_changes_are_refused_by_place(self):
        def change(events, factor):
            of = next(e for e in events if e.get("pass") == "bwd" and e["k"] == "local_op")
            of.update(node="hook", p=next(e["p"] for e in events if e["k"] == "place"))
            check = next(e for e in events if e["k"] == "check" and e.get("pass") == "bwd")
            check["fp"] = [x * factor for x in check["fp"]]
        errors = self.refused("run", self.changed("kept", lambda x: change(x, 1.5)))
        self.assertRegex(errors, r"a hook that changes a gradient, by aten\.\S+ at .*\.py:\d+")
        # One that only looks on changes nothing.
        code, _, errors = self.shardlab("run", self.changed("kept", lambda x: change(x, 1)))
        self.assertEqual(code, 0, errors)

    def test_a_wrong_value_next_to_a_choice_is_found(self):
        for op in ("aten.sort.default", "aten._linalg_eigh.default", "aten._linalg_svd.default",
                   "aten.rrelu_with_noise.default"):
            with self.subTest(op=op):
                def change(events, op=op):
                    at = next(i for i, e in enumerate(events) if e.get("op") == op)
                    later = next(e for e in events[at + 1:] if e["k"] == "local_op" and e["out"][0]
                                 and abs(e["out"][0].get("fp", [0])[0]) > 0.1
                                 and e["out"][0]["dtype"] == "f32" and e.get("c") is not None)
                    later["out"][0]["fp"] = [x * 1.1 for x in later["out"][0]["fp"]]
                code, _, errors = self.shardlab("replay", self.changed("kept", change))
                self.assertEqual(code, 1, errors)

    def test_functions_that_have_no_rule_are_refused_by_place(self):
        def change(events, of):
            for event in events:
                if event["k"] == "function":
                    of(event)
        for of, told in ((lambda e: e.pop("known"), r"args, out, known or calls are missing"),
                         (lambda e: e.update(calls=[3]), r"'calls' of a function"),
                         (lambda e: e.update(out=[{"v": 3}]), r"not numbers of values"),
                         (lambda e: e["constant"].append(True), r"'constant' has a flag"),
                         (lambda e: e.update(args=[{"v": 9999}]), r"value 9999"),
                         (lambda e: e.update(reentrant=True), r"use_reentrant=False")):
            errors = self.refused("run", self.changed("own_gradients", lambda x: change(x, of)))
            self.assertRegex(errors, told)
            self.assertRegex(errors, r"programs.py:\d+")

    def test_a_cast_of_a_list_is_refused_by_place(self):
        def change(events):
            for event in events:
                if event["k"] == "local_op" and event["op"].startswith("aten._to_copy"):
                    event["args"] = [event["args"]]
        errors = self.refused("run", self.changed("autocast", change))
        self.assertRegex(errors, r"aten._to_copy.default at 0  programs.py:\d+ has arguments")

    def test_a_function_inside_of_a_function_has_names_of_its_own(self):
        def twice(events):
            at = next(i for i, e in enumerate(events) if e.get("name") == "Gated")
            events.insert(at + 1, dict(events[at]))
        code, output, errors = self.shardlab("run", "--summary",
                                             self.changed("own_gradients", twice), "--mesh", "dp=2")
        self.assertEqual(code, 0, errors)
        self.assertRegex(output, r"\nok     x.json.gz  2 ranks, 71 values verified")

    def test_a_step_without_backward_runs_forward_alone(self):
        def change(events):
            end = next(i for i, e in enumerate(events) if e["k"] == "backward")
            events[end:] = [e for e in events[end:] if e["k"] in ("end", "place", "module")]
        code, output, errors = self.shardlab("run", "--summary", self.changed("llama", change),
                                             "--mesh", "tp=2", "--plan", "megatron")
        self.assertEqual(code, 0, errors)
        self.assertRegex(output, r"^self-test on one rank: [1-9]\d* values and 0 gradients are "
                                 r"PyTorch's, 0 differ")
        self.assertRegex(output, r"\nok     x.json.gz  2 ranks, [1-9]\d* values verified")
        self.assertEqual(errors, "note: nothing in it calls loss.backward(): forward alone\n")

    def test_a_call_with_another_number_is_found(self):
        def change(events):
            call = next(e for e in events if e["k"] == "call" and e["op"] == "aten.mul.Tensor")
            call["op"], call["args"][1] = "aten.mul.Scalar", 0.5
        code, _, errors = self.shardlab("run", self.changed("llama", change))
        self.assertEqual(code, 1)
        self.assertRegex(errors, r"FAIL event \d+  layers.0.attention_norm  programs.py:\d+")

    def test_the_scenario_runs_with_the_recording(self):
        path = next(f for f in FILES if f.name.startswith("llama__"))
        (self.folder / path.name).write_bytes(path.read_bytes())
        text = self.fine("run", path.name, "--toml", "--mesh", "tp=2", "--place",
                         "layers.*.attention.wq.weight=[_@tp, _]",
                         "--place", "layers.*.attention:out=[_, _, _]")
        self.assertIn("tok_embeddings_weight = { type = \"f32[64, 32]\"", text)
        self.assertIn("layers_1_attention_wq_weight = { type = \"f32[32@tp, 32]\"", text)
        self.assertRegex(text, r"layers_0_attention_wo.redistribute\(tp=R\)")
        self.plant(step=text)
        self.assertIn("values verified", self.fine("run", "--summary", "step.toml"))

    def test_what_no_mesh_can_take_is_refused_with_its_place(self):
        def function(events):
            at = next(i for i, e in enumerate(events) if e["k"] == "call")
            events.insert(at, {"k": "function", "name": "Own", "p": 0, "in": [], "out": []})
        errors = self.refused("run", self.changed("llama", function))
        self.assertRegex(errors, r"the autograd.Function Own at programs.py:\d+")

        def no_calls(events):
            events[:] = [e for e in events if e["k"] != "call"]
        self.assertIn("no calls", self.refused("run", self.changed("llama", no_calls)))

        def no_results(events):
            end = next(i for i, e in enumerate(events) if e["k"] == "backward")
            events[:] = [e for e in events[:end] if e["k"] not in ("module", "call")] + events[-1:]
            events[-1:-1] = [{"k": "call", "c": 0, "op": "aten.zero_.default", "args": [],
                              "out": []}]
        self.assertIn("no call", self.refused("run", self.changed("llama", no_results)))

    def test_a_program_without_modules_ends_in_the_results_of_its_calls(self):
        def no_modules(events):
            end = next(i for i, e in enumerate(events) if e["k"] == "backward")
            events[:] = [e for e in events[:end] if e["k"] != "module"] + events[-1:]
        code, output, errors = self.shardlab(
            "run", "--summary", self.changed("llama", no_modules), "--mesh", "tp=3")
        self.assertEqual(code, 0, errors)
        self.assertRegex(output, r"self-test on one rank: \d+ values and 0 gradients are PyTorch's")

    def test_wrong_plans_and_placings_are_refused(self):
        path = str(next(f for f in FILES if f.name.startswith("llama__")))
        self.assertIn("megatron", self.refused("run", path, "--mesh", "tp=2", "--plan", "megatrn"))
        for placing in ("wq=[_", "layers.0.wo.weight=[_@x, _]", "norm.weight=[_, _]", "=[_]"):
            errors = self.refused("run", path, "--mesh", "tp=2", "--place", placing)
            self.assertIn("--place", errors)
        self.plant(t="title = \"t\"\n[mesh]\ntp = 2\n[program]\ncode = \"pass\"\n")
        self.assertIn("--mesh", self.refused("run", "t.toml", "--mesh", "tp=4"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
