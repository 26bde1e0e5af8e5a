#!/usr/bin/env python3
"""Training steps of several ranks recorded in PyTorch: every result of every rank is compared with
the recorded one, moves and placements are reported apart from values, and a damaged file is
refused.

    ranks_test.py PROGRAM RECORDINGS
"""

import copy
import json
import pathlib
import random
import unittest

import program
import step_test as steps

FILES = sorted((steps.RECORDINGS / "ranks").glob("*.json.gz"))
PLAYED = {"op", "local_op", "redistribute", "redistribute_bwd", "to_local", "to_local_bwd",
          "from_local", "from_local_bwd", "wrap", "unwrap", "coll"}


def path_of(name):
    return next(file for file in FILES if file.name.startswith(name + "__"))


def of_rank(node, rank):
    """The file that the process of this rank would have written of a merged recording."""
    if isinstance(node, list):
        return [of_rank(item, rank) for item in node]
    if not isinstance(node, dict):
        return node
    if set(node) == {"ranks"}:
        return node["ranks"][rank]
    if node.get("k") in ("mesh", "group"):
        return dict(node)
    own = {key: of_rank(value, rank) for key, value in node.items()}
    for several, one in (("raw_ranks", "raw"), ("shapes", "shape")):
        if several in own:
            own[one] = own.pop(several)[rank]
    if "placements" in own and "fp" in own:
        own["share"] = own.pop("fp") if rank == 0 else [0, 0]
    return own


def calls_in(event):
    """The events that are played of it, one for each rank where ranks have their own."""
    return len(event["each"]) if event["k"] == "each" else event["k"] in PLAYED


def of_rank_alone(events, rank):
    """The file of this rank's process, where ranks have events of their own."""
    kinds = ("program", "place", "group", "end")
    own = [part for event in events for part in event.get("each", [event])
           if event["k"] in kinds or part.get("at") == rank]
    return [{key: value for key, value in event.items() if key != "at"}
            for event in copy.deepcopy(own)]


class Ranks(program.Program):
    def changed(self, name, change):
        """The recording with `change(events)` done to it, as file x.json.gz."""
        events, raw = steps.taken_apart(path_of(name))
        change(events)
        events[-1]["events"] = len(events)
        steps.put_together(self.folder / "x.json.gz", events, raw)
        return "x.json.gz"

    def report(self, *arguments, code=0):
        own, output, errors = self.shardlab("replay", "--json", *arguments)
        self.assertEqual(own, code, errors + output)
        return json.loads(output)

    def test_every_recorded_step_replays_on_all_its_ranks(self):
        self.assertGreaterEqual(len(FILES), 26)
        for path in FILES:
            with self.subTest(path=path.name):
                report = self.report(str(path))
                events, _ = steps.taken_apart(path)
                played = sum(map(calls_in, events))
                self.assertEqual((report["ops"], report["skipped"]), (played, 0))
                self.assertEqual(report["ranks"], events[0]["world"])
                self.assertEqual((report["differ"], report["rules"], report["missing"]),
                                 (0, [], []))
                # bf16 has three digits, of which few are left after a step of training.
                few = any(name in path.name for name in ("mixed", "autocast"))
                if report["reference"]:
                    continue  # what follows from a wrong value is held to as much
                self.assertLess(report["undecided"], (1 if few else 0.05) * report["agree"])

    def test_a_wrong_value_is_found_on_whatever_rank_it_is(self):
        for name in ("llama_tp_4", "mlp_tp_2"):
            events, _ = steps.taken_apart(path_of(name))
            ranked = [i for i, e in enumerate(events) if e["k"] == "local_op" and e.get("out")
                      and isinstance((e["out"][0] or {}).get("fp"), dict)]
            whole = [i for i, e in enumerate(events) if e["k"] == "op" and e.get("out")
                     and "placements" in (e["out"][0] or {}) and "fp" in e["out"][0]
                     and e["out"][0]["dtype"] == "f32" and abs(e["out"][0]["fp"][1]) > 1]
            chosen = whole[:: max(1, len(whole) // 4)] + ranked[:: max(1, len(ranked) // 3)]
            for at in chosen:
                with self.subTest(name=name, event=at, op=events[at]["op"]):
                    def change(events, at=at):
                        print_ = events[at]["out"][0]["fp"]
                        if isinstance(print_, dict):
                            print_ = print_["ranks"][-1]
                        print_[:] = [x * 1.05 + 0.01 for x in print_]
                    report = self.report(self.changed(name, change), code=1)
                    self.assertEqual(report["differences"][0]["event"], at + 1)

    def test_a_result_with_other_dims_is_a_difference_or_refused(self):
        events, _ = steps.taken_apart(path_of("mlp_tp_2"))
        made = [i for i, e in enumerate(events) if e["k"] in PLAYED and e.get("out")
                and isinstance(e["out"][0], dict) and "shape" in e["out"][0]]
        for dims in ([], [1, 1, 1]):
            for at in made[::4]:
                if events[at]["out"][0]["shape"] == dims:
                    continue
                with self.subTest(event=at, dims=dims):
                    def change(events, at=at, dims=dims):
                        events[at]["out"][0]["shape"] = dims
                        events[at]["out"][0].pop("stride", None)
                    code, output, errors = self.shardlab("replay", self.changed("mlp_tp_2", change))
                    self.assertIn(code, (1, 2))
                    self.assertNotIn("unexpected", output + errors)
                    self.assertNotIn("was asked for", output + errors)

    def test_a_check_of_ranks_that_have_no_such_value_is_a_difference(self):
        events, _ = steps.taken_apart(path_of("pipeline_2"))
        at = next(i for i, e in enumerate(events) if e["k"] == "check" and "at" in e)
        name = self.changed("pipeline_2", lambda events: events[at].pop("at"))
        told = self.report(name, code=1)["differences"][0]
        self.assertEqual((told["event"], told["expected"], told["got"]),
                         (at + 1, "a value on 2 ranks", "on 1"))

    def test_a_rule_of_another_release_is_no_wrong_value(self):
        def change(events):
            move = next(e for e in events if e["k"] == "op"
                        and "redist" in e and "MP" not in str(e["redist"]))
            del move["redist"]
        name = self.changed("llama_sp_4", change)
        self.assertEqual(len(self.report(name, code=1)["rules"]), 1)

        def older(events):
            change(events)
            events[0]["torch"] = "2.10.0"
        name = self.changed("llama_sp_4", older)
        report = self.report(name)
        self.assertEqual((report["differ"], len(report["rules"])), (0, 1))
        self.assertRegex(self.fine("replay", name), r"(?s)RULE event \d+ .*0 differ.*, 1 by a rule")

    def test_placements_are_compared(self):
        def change(events):
            op = next(e for e in events if e["k"] == "op" and e["op"] == "aten.mm.default"
                      and e["out"][0]["placements"] == ["S(1)"])
            op["out"][0]["placements"] = ["S(0)"]
        rules = self.report(self.changed("llama_tp_4", change), code=1)["rules"]
        self.assertEqual((rules[0]["op"], rules[0]["expected"], rules[0]["got"]),
                         ("aten.mm.default", "[S(0)]", "[S(1)]"))

    def test_a_replay_refuses_reports_of_programs(self):
        for words in (("--html", "x.html"), ("--perfetto", "t.json"), ("--save", "s"), ("--log",),
                      ("--flight-recorder", "f"), ("--why", "loss"), ("--line", "3")):
            for more in ((), ("--transport", "blocking")):
                code, output, errors = self.shardlab("run", *words, *more, path_of("ddp_2"))
                self.assertEqual((code, output), (2, ""), words)
                self.assertIn(f"{words[0]}: ", errors)
                self.assertIn("is a recording of several ranks, which is replayed", errors)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_collective_that_is_missing_is_found(self):
        for name in ("by_hand_2", "ddp_2", "fsdp_2", "fsdp_sp_4"):
            events, _ = steps.taken_apart(path_of(name))
            places = [i for i, e in enumerate(events) if e["k"] == "coll"]
            for at in places[:: max(1, len(places) // 3)]:
                with self.subTest(name=name, event=at, op=events[at]["op"]):
                    report = self.report(self.changed(name, lambda e, at=at: e.pop(at)), code=1)
                    self.assertGreater(report["differ"], 0)

    def test_a_message_that_is_missing_or_another_is_found(self):
        def calls(events, op):
            return [e for e in events if e.get("op") == op]

        def unsent(events):
            events.remove(calls(events, "c10d.send.default")[1])

        def unreceived(events):
            events.remove(calls(events, "c10d.recv_.default")[0])

        def tagged(events):
            calls(events, "c10d.send.default")[0]["args"][3] = 7

        def another(events):
            first, second = calls(events, "c10d.send.default")[:2]
            second["args"][0] = first["args"][0]

        for name, change, field in (
                ("chain_3", unsent, "message"), ("chain_3", unreceived, "message"),
                ("ring_4", tagged, "message"), ("pipeline_2", unsent, "message"),
                ("pipeline_2", another, "error"), ("stages_4", unsent, "message")):
            with self.subTest(name=name, change=change.__name__):
                report = self.report(self.changed(name, change), code=1)
                self.assertIn(field, [x["field"] for x in report["differences"]])

    def test_a_message_that_was_not_recorded_is_refused_with_its_place(self):
        def unsent(rank, own):
            if rank == 1:
                own.remove(next(e for e in own if e.get("op") == "c10d.send.default"))
        files = self.files_of("chain_3", unsent)
        code, output, errors = self.shardlab("merge", *files)
        self.assertEqual((code, output), (2, ""))
        self.assertRegex(errors, r"rank \d waits for a message that no rank has sent "
                                 r"at \S*parallel.py:\d+")

    def test_files_of_ranks_that_part_are_made_one(self):
        for name in ("chain_3", "pipeline_2", "ring_4", "stages_4"):
            files = self.files_of(name)
            with self.subTest(name=name):
                self.fine("merge", *files, "--out", "y.json.gz")
                self.assertEqual(self.report("y.json.gz")["agree"],
                                 self.report(str(path_of(name)))["agree"])

    def files_of(self, name, change=lambda rank, events: None):
        """Of the ranks of a recording in which each has its own events."""
        events, raw = steps.taken_apart(path_of(name))
        files = []
        for rank in range(events[0]["world"]):
            own = of_rank_alone(events, rank)
            own[0]["rank"] = rank
            change(rank, own)
            own[-1]["events"] = len(own)
            files.append(f"x.r{rank}.json.gz")
            steps.put_together(self.folder / files[-1], own, raw)
        return files

    def test_a_rank_that_left_no_file_is_named(self):
        """What the others wait for does not come."""
        for lost in range(3):
            for how in (pathlib.Path.unlink, lambda path: path.write_bytes(b"")):
                files = self.files_of("chain_3")
                how(self.folder / files[lost])
                merged = self.fine("merge", *files, "--out", "y.json.gz")
                self.assertRegex(merged, rf" of 3 ranks, \d+ bytes, nothing of rank {lost}\n$")
                code, output, errors = self.shardlab("prove", "y.json.gz")
                self.assertEqual(code, 1, output + errors)
                self.assertRegex(output, "^hangs ")
                self.assertRegex(output,
                                 rf"rank {lost}  has ended, and never posts a (send|receive)")
                fields = {x["field"] for x in self.report("y.json.gz", code=1)["differences"]}
                self.assertIn("message", fields)
        for file in self.folder.glob("x.*"):
            file.write_bytes(b"")
        self.assertEqual(self.shardlab("merge", *files)[0], 2)
        self.fine("merge", *self.files_of("chain_3"), "--out", "y.json.gz")
        self.assertNotIn("hangs", self.shardlab("prove", "y.json.gz")[1])

    def test_a_call_that_was_never_over_hangs_in_the_proof_too(self):
        """A program failed in a wait, or went on behind it."""
        def failed(events):
            last = max(i for i, e in enumerate(events) if e["k"] == "coll" and e["at"] == 1)
            events[last:-1] = [e for e in events[last:-1] if e.get("at") != 1]
            events[-1]["error"] = "RuntimeError: Timed out"

        def caught(events):
            one = [e for e in events if e["k"] == "wait" and e["at"] == 0][-1]
            del one["of"]
            one["name"] = "a wait that failed"

        self.fine("prove", str(path_of("layouts_2")))
        code, output, _ = self.shardlab("prove", self.changed("layouts_2", failed))
        self.assertEqual(code, 1, output)
        self.assertRegex(output, r"rank 0  waits at the wait for \w+ on group \w+ \(\S+:\d+\)\n"
                                 r"  rank 1  has ended, and never enters a collective")
        code, output, _ = self.shardlab("prove", self.changed("layouts_2", caught))
        self.assertEqual(code, 2, output)
        self.assertIn("no promise: C2 ", output)

    def test_a_barrier_of_one_rank_is_no_collective_of_another(self):
        def parts(rank, own):
            at = [i for i, e in enumerate(own) if e["k"] == "coll"][-1]
            if rank == 1:
                group = next(x for x in own[at]["args"] if isinstance(x, dict) and "pg" in x)
                own[at] = {"k": "wait", "name": "barrier", "args": [group], "p": own[at]["p"]}
            own[-1]["error"] = "RuntimeError: Timed out"
        self.fine("merge", *self.split("by_hand_2", parts), "--out", "y.json.gz")
        code, output, errors = self.shardlab("prove", "y.json.gz")
        self.assertEqual(code, 2, output + errors)
        self.assertRegex(output, r"no promise: C3 \S+:\d+: rank (0 is in all_reduce, and rank 1 in "
                                 r"barrier|1 is in barrier, and rank 0 in all_reduce) \(\S+:\d+\)")
        differences = self.report("y.json.gz", code=1)["differences"]
        self.assertIn(("collective", "all ranks of its group"),
                      [(x["field"], x["expected"]) for x in differences])

    def test_a_wrong_piece_of_a_dtensor_is_found_on_ranks_that_part(self):
        """Two stages, each cut over two ranks: pieces of DTensors, on each rank its own."""
        events, _ = steps.taken_apart(path_of("stages_4"))
        self.assertFalse([e for e in events if e["k"] == "mesh" or "placements" in str(e)])
        for rank in range(4):
            chosen = [i for i, e in enumerate(events)
                      if e["k"] == "local_op" and e["at"] == rank and e["out"]
                      and steps.is_float(e["out"][0]) and abs(e["out"][0]["fp"][1]) > 1]
            self.assertGreater(len(chosen), 8)
            for at in chosen[2:: len(chosen) // 2]:
                def change(events, at=at):
                    value = events[at]["out"][0]
                    value["fp"] = [x * 1.01 for x in value["fp"]]
                first = self.report(self.changed("stages_4", change), code=1)["differences"][0]
                self.assertEqual(first["event"], at + 1)

    def test_another_reduction_is_found(self):
        def change(events):
            coll = next(e for e in events if e["k"] == "coll" and {"reduce": "avg"} in e["args"])
            coll["args"] = [{"reduce": "sum"} if x == {"reduce": "avg"} else x
                            for x in coll["args"]]
        self.assertGreater(self.report(self.changed("fsdp_2", change), code=1)["differ"], 0)

    def split(self, name, change=lambda rank, events: None):
        """Files of the processes that a merged recording may have come from."""
        events, raw = steps.taken_apart(path_of(name))
        files = []
        for rank in range(events[0]["world"]):
            own = of_rank(events, rank)
            own[0]["rank"] = rank
            change(rank, own)
            own[-1]["events"] = len(own)
            files.append(f"x.r{rank}.json.gz")
            steps.put_together(self.folder / files[-1], own, raw)
        return files

    def test_files_of_processes_are_made_one(self):
        for name in ("by_hand_2", "fsdp_2", "fsdp_uneven_3", "fsdp_sp_4"):
            with self.subTest(name=name):
                files = self.split(name)
                self.fine("merge", *files, "--out", "y.json.gz")
                events, _ = steps.taken_apart(path_of(name))
                merged, _ = steps.taken_apart(self.folder / "y.json.gz")

                def bare(node):
                    if isinstance(node, list):
                        return [bare(item) for item in node]
                    if not isinstance(node, dict):
                        return node
                    return {k: bare(v) for k, v in node.items() if not k.startswith("raw")}
                self.assertEqual(bare(merged), bare(events))
                self.assertEqual(self.report("y.json.gz")["agree"],
                                 self.report(str(path_of(name)))["agree"])

    def test_what_is_no_program_of_all_ranks_is_refused(self):
        def refused(*arguments):
            code, output, errors = self.shardlab(*arguments)
            self.assertEqual((code, output), (2, ""), errors)
            return errors
        files = self.split("by_hand_2")
        self.assertIn("shardlab merge", refused("replay", files[0]))
        self.assertIn("rank 0 of 2, among 1 files", refused("merge", files[0]))
        self.assertIn("among 2 files", refused("merge", files[0], files[0]))
        self.plant(t="title = 1")
        self.assertIn("not a recording", refused("merge", files[0], "t.toml"))
        self.assertIn("cannot be written", refused("merge", *files, "--out", "no/where.json.gz"))

        def part(rank, events):
            if rank == 1:
                next(e for e in events if e["k"] == "coll")["op"] = "c10d.broadcast_.default"
        self.assertRegex(
            refused("merge", *self.split("by_hand_2", part)),
            r"ranks part at event \d+: rank 0 c10d.allreduce_.default at \S*parallel.py:\d+, "
            r"rank 1 c10d.broadcast_.default at \S*parallel.py:\d+")

        def shorter(rank, events):
            if rank == 1:
                del events[40:-1]
        self.assertIn("ranks part at event 41", refused("merge", *self.split("fsdp_2", shorter)))
        self.assertRegex(
            refused("merge", *self.split("by_hand_2", shorter)),
            r"rank 0 waits in c10d.allreduce_.default for ranks that do not come to it at "
            r"\S*parallel.py:\d+")

    def test_a_program_of_wholes_runs_on_other_meshes(self):
        """The values that PyTorch recorded are those of one rank, which those of the mesh are
        compared with. Gradients and parameters after the step are counted in the recording."""
        cases = [("mesh_2d_4", ["dp=3,tp=2"], 4), ("mesh_2d_6", ["tp=5,dp=1", "x=2,dp=2,tp=2"], 4),
                 ("mlp_tp_2", ["tp=3", "dp=2,tp=2"], 4), ("tp_of_two_4", ["tp=3"], 4),
                 ("next_token_tp_2", ["tp=5"], 5), ("views_4", ["dp=2,tp=2,ep=2,all=1"], 4)]
        for name, meshes, gradients in cases:
            for mesh in meshes:
                with self.subTest(name=name, mesh=mesh):
                    code, output, errors = self.shardlab("run", str(path_of(name)), "--mesh", mesh)
                    self.assertEqual(code, 0, output + errors)
                    self.assertRegex(output, f", {gradients} gradients are PyTorch's, 0 differ|"
                                             f" and {gradients} gradients are PyTorch's, 0 differ")

    def test_what_pytorch_computes_wrongly_is_a_difference_on_one_rank(self):
        code, output, errors = self.shardlab("run", str(path_of("gathered_2")), "--mesh", "dp=3")
        self.assertEqual((code, output), (1, ""))
        self.assertRegex(errors, r"FAIL event \d+ .* aten.gather.default")

    def test_a_wrong_piece_of_a_whole_is_found_on_another_mesh(self):
        def other(events):
            values = next(e for e in events if e["k"] == "op" and "gelu" in e["op"])
            values["out"][0]["fp"][0] += 1
        code, output, errors = self.shardlab("run", self.changed("mesh_2d_4", other),
                                             "--mesh", "dp=1,tp=3")
        self.assertEqual(code, 1, output)
        self.assertRegex(output + errors, r"FAIL.*aten.gelu.default")

    def test_placements_are_those_of_the_recording_by_the_names_of_dims(self):
        text = self.fine("run", str(path_of("mesh_2d_4")), "--mesh", "tp=3,dp=2", "--toml")
        self.assertIn('w1_weight = { type = "f32[32@tp, 16]"', text)
        self.assertIn('"f32[6@dp, 16]"', text)
        anew = self.fine("run", str(path_of("mesh_2d_4")), "--mesh", "x=4", "--plan", "replicate",
                         "--toml")
        self.assertIn('w1_weight = { type = "f32[32, 16]"', anew)

    def test_what_ranks_do_of_their_own_is_not_taken_to_another_mesh(self):
        def refused(name, *arguments):
            code, output, errors = self.shardlab("run", str(path_of(name)), *arguments)
            self.assertEqual((code, output), (2, ""), errors)
            return errors
        self.assertIn("mesh dims that --mesh lacks: dp\n",
                      refused("mesh_2d_4", "--mesh", "tp=4").replace(", tp", ""))
        self.assertIn("--plan", refused("mesh_2d_4", "--mesh", "x=4"))
        # Heads are counted by rank; a batch is each rank's own; FSDP makes wholes by collectives.
        for name, op in (("llama_tp_4", r"aten\.view\.default of pieces"),
                         ("ddp_2", "of what each rank has of its own"),
                         ("by_hand_2", "of what each rank has of its own"),
                         ("fsdp_2", r"fsdp\.all_gather_copy_in\.default of pieces S\(0\)")):
            with self.subTest(name=name):
                self.assertRegex(refused(name, "--toml"),
                                 op + r".* \S*\.py:\d+ is not taken to another")

    def test_what_a_damaged_line_says_is_refused(self):
        def of(events, kind, key=None):
            return next(e for e in events if e["k"] == kind and (key is None or key in e))

        def piece(events):
            return next(e for e in events if "raw_ranks" in e)

        def mesh_of_others(events):
            of(events, "mesh")["ranks"] = [0, 2, 1, 3]

        def mesh_without_names(events):
            of(events, "mesh")["names"] = [3]

        def few_placements(events):
            of(events, "op")["out"][0]["placements"] = []

        def no_placement(events):
            of(events, "redistribute")["to"] = ["Q"]

        def unknown_mesh(events):
            of(events, "op")["out"][0]["on"] = 7

        def unknown_group(events):
            of(events, "redistribute", "comm")["comm"][0]["g"] = 9

        def few_pieces(events):
            piece(events)["raw_ranks"].pop()

        def large_piece(events):
            piece(events)["raw_ranks"][0][0] = 1 << 40

        def shapes_of_a_whole(events):
            of(events, "op")["out"][0]["shapes"] = [[1]] * 4

        def prints_of_few(events):
            of(events, "local_op")["out"][0]["fp"] = {"ranks": [[1, 2]]}

        def one_of_four(events):
            events[0]["rank"] = 2

        def rank_of_more(events):
            next(e for e in events if "at" in e)["at"] = 3

        def peer_of_more(events):
            next(e for e in events if e.get("op") == "c10d.send.default")["args"][2] = 3

        def message_of_nothing(events):
            next(e for e in events if e.get("op") == "c10d.send.default")["args"][0] = []

        def group_of_more(events):
            of(events, "group")["ranks"] = [0, 3]

        def label_alone(events):
            next(e for e in events if "at" in e and e.get("out"))["out"][0]["placements"] = ["R"]

        def each_of_none(events):
            events.insert(3, {"k": "each", "each": []})

        alone = (rank_of_more, peer_of_more, message_of_nothing, group_of_more, label_alone,
                 each_of_none)
        changes = (*alone, mesh_of_others, mesh_without_names, few_placements, no_placement,
                   unknown_mesh, unknown_group, few_pieces, large_piece, shapes_of_a_whole,
                   prints_of_few, one_of_four)
        for change in changes:
            with self.subTest(change=change.__name__):
                name = "mesh_2d_4" if "piece" in change.__name__ else "mlp_tp_4"
                name = "chain_3" if change in alone else name
                code, output, errors = self.shardlab("replay", self.changed(name, change))
                self.assertEqual((code, output), (2, ""), errors)
                self.assertEqual(errors.count("error:"), 1, errors)
                self.assertIn("  fix         ", errors)

    def test_nothing_in_a_file_is_a_crash(self):
        draw = random.Random(7)
        others = (None, -1, 3, 1 << 40, "x", [], {}, [0], {"v": 0}, True, "S(5)", ["R", "R"])

        def spoil(node):
            if isinstance(node, dict) and node:
                key = draw.choice(sorted(node))
                deeper = isinstance(node[key], (dict, list)) and draw.random() < 0.6
                if deeper:
                    spoil(node[key])
                elif draw.random() < 0.2:
                    del node[key]
                else:
                    node[key] = copy.deepcopy(draw.choice(others))
            elif isinstance(node, list) and node:
                at = draw.randrange(len(node))
                if isinstance(node[at], (dict, list)) and draw.random() < 0.6:
                    spoil(node[at])
                else:
                    node[at] = copy.deepcopy(draw.choice(others))

        for turn in range(90):
            with self.subTest(turn=turn):
                def change(events):
                    spoil(events[draw.randrange(len(events) - 1)])
                chosen = draw.choice(("mesh_2d_4", "tp_of_two_4", "mlp_tp_2", "by_hand_2",
                                      "chain_3", "ring_4", "experts_2"))
                name = self.changed(chosen, change)
                code, _, errors = self.shardlab("replay", name)
                self.assertIn(code, (0, 1, 2), errors)


if __name__ == "__main__":
    unittest.main(argv=steps.sys.argv[:1])
