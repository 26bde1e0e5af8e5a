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
import subprocess
import sys
import tarfile
import unittest
import zlib

import program


class Evil:
    """A pickle that would make a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


# One import of PyTorch for the dumps of all hangs.
ANALYZE = """
import sys
try:
    from torch.distributed.flight_recorder import fr_trace
except ImportError:
    sys.exit(77)
for folder in sys.argv[1:]:
    try:
        fr_trace.main([folder, "-p", "shardlab_rank_"])
    except SystemExit as end:
        if end.code:
            sys.exit(f"{folder}: {end.code}")
print(len(sys.argv) - 1, "folders")
"""


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

    def test_other_files_of_the_folder_are_noted(self):
        """Logs are beside the dumps; a damaged dump is an error still, and so is a log by name."""
        files = {**self.real()["other_op"], "stderr.log": b"hello\n", "run.json": b"{}"}
        folder = self.dump("logs", files)
        code, found, _ = self.autopsy(folder)
        self.assertEqual((code, found["culprits"]), (1, [3]))
        noted = [note for note in found["notes"] if "no dump" in note]
        self.assertEqual([note.rpartition("/")[2] for note in noted],
                         ["run.json is no dump", "stderr.log is no dump"])
        code, _, errors = self.shardlab("autopsy", f"{folder}/stderr.log")
        self.assertEqual(code, 2)
        self.assertIn("stderr.log", errors)
        code, _, errors = self.autopsy(self.dump("damaged", {**files, "rank_1": b"hello\n"}))
        self.assertEqual(code, 2)
        self.assertIn("rank_1", errors)

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
        # A dump that is cut is no rank that stopped: the one that parted is named.
        text = ('[mesh]\ndp = 2\ntp = 3\n[program]\ncode = """\nx = torch.ones(4) * rank\n'
                'for group in ("tp", "dp", "tp"):\n    dist.all_reduce(x, group=group)\n'
                'if rank != 4:\n    dist.all_reduce(x, group="dp")\n'
                'dist.all_reduce(x, group="tp")\ndist.all_reduce(x)\n"""\n')
        self.shardlab("run", "--flight-recorder", "hang", text=text)
        for cut in range(6):
            files = {path.name: path.read_bytes() for path in (self.folder / "hang").iterdir()}
            whole = files[f"shardlab_rank_{cut}"]
            for size in (len(whole) // 3, len(whole) * 2 // 3):
                files[f"shardlab_rank_{cut}"] = whole[:size]
                found = self.autopsy(self.dump(f"cut{cut}_{size}", files))[1]
                self.assertEqual(found["culprits"], [4], (cut, size))
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

    def test_damaged_bytes_are_printed_by_their_number(self):
        files = {f"rank_{rank}": json.dumps(dump).replace(
            '"train.py"', json.dumps("\x1b[31mred\x9b" + "x" * 2000)).encode()
                 for rank, dump in self.cases[0]["dumps"].items()}
        output = self.shardlab("autopsy", self.dump("bytes", files))[1]
        self.assertLess(len(output), 6000)
        self.assertIn(r"\x1b[31mred\xc2\x9b", output)

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

    def hangs(self):
        """Every program of the test suite whose ranks wait for ever, or whose calls do not fit."""
        paths = [path for folder in ("zoo", "faults", "hangs")
                 for path in sorted((self.scenarios / folder).glob("*.toml"))
                 if re.search(r'^verdict = "(deadlock|mismatch)"', path.read_text("utf-8"), re.M)]
        cases = self.scenarios.parent / "tests" / "verdicts" / "cases"
        return paths + [path.with_suffix(".toml") for path in sorted(cases.glob("*.txt"))
                        if re.search(r"verdict     (deadlock|mismatch)", path.read_text("utf-8"))]

    def recorded(self, path, *arguments):
        """The JSON of a run, and its dumps by rank."""
        for one in (self.folder / "fr").glob("*"):
            one.unlink()
        output = self.shardlab("run", "--flight-recorder", "fr", "--json", *arguments, path)[1]
        return json.loads(output), {
            int(one.name.removeprefix("shardlab_rank_")): one.read_bytes()
            for one in sorted((self.folder / "fr").iterdir())}

    def test_our_own_hangs(self):
        hangs = self.hangs()
        self.assertGreater(len(hangs), 50)
        for path in hangs:
            with self.subTest(path.name):
                run, first = self.recorded(path)
                lines = {int(line) for line in re.findall(
                    rf"(?:{re.escape(path.name)}:|\(line )(\d+)", json.dumps(run["error"]))}
                code, found, _ = self.autopsy("fr")
                self.assertEqual(code, 1)
                line = found["line"] or found["ours"]["line"]
                self.assertIn(line, lines)
                self.assertEqual(first, self.recorded(path)[1])

    def test_nobody_is_blamed_where_all_calls_have_ended(self):
        """Uneven pieces, no calls, ranks with calls of their own."""
        for name in ("models/fsdp_three_layers", "models/mixture_of_experts", "start/moe",
                     "models/data_tensor_3d", "models/experts_on_views", "hangs/two_groups",
                     "redistribute/cutting_order", "redistribute/fewest_bytes",
                     "smoke/pipeline_of_two_meshes", "smoke/torch_distributed",
                     "zoo/group_of_other_ranks_right", "zoo/positions_without_offset_right"):
            with self.subTest(name):
                self.recorded(self.scenarios / f"{name}.toml")
                code, found, errors = self.autopsy("fr")
                self.assertEqual((code, found and found["kind"]), (0, "healthy"), errors)

    def test_both_sides_of_a_message_of_another_size_are_named(self):
        text = ('[mesh]\npp = 3\n[inputs]\nx = "f32[4]"\n[program]\ncode = """\n'
                't, got = x.to_local() * 1.0, torch.zeros([SIZE])\n'
                'if rank == 1:\n    dist.send(t, 2)\nelif rank == 2:\n    dist.recv(got, 1)\n"""\n')
        self.plant(wrong=text.replace("SIZE", "2, 3"), right=text.replace("SIZE", "4"))
        self.recorded("wrong.toml")
        found = self.autopsy("fr")[1]
        self.assertEqual((found["kind"], found["culprits"], found["tie"]),
                         ("other_size", [1, 2], True))
        self.assertEqual((found["ours"]["line"], found["theirs"]["line"]), (9, 11))
        self.recorded("right.toml")
        code, found, _ = self.autopsy("fr")
        self.assertEqual((code, found["kind"]), (0, "healthy"))

    def test_dumps_have_the_fields_of_torch(self):
        collectives = {"broadcast", "reduce", "all_gather", "all_reduce", "_all_gather_base",
                       "_reduce_scatter_base", "gather", "scatter", "all_to_all", "barrier"}
        for path in self.hangs():
            for rank, content in self.recorded(path)[1].items():
                with self.subTest(path.name, rank=rank):
                    dump = pickle.loads(content)
                    self.assertEqual(content[:2], b"\x80\x02")
                    self.assertRegex(dump["version"], r"^2\.\d+$")
                    for name, group in dump["pg_config"].items():
                        self.assertEqual(group["name"], name)
                        self.assertIn(rank, json.loads(group["ranks"]))
                    for number, entry in enumerate(dump["entries"]):
                        self.assertEqual(entry["record_id"], number)
                        name, description = entry["process_group"]
                        self.assertEqual(dump["pg_config"][name]["desc"], description)
                        backend, op = entry["profiling_name"].split(":")
                        self.assertEqual(backend, "nccl")
                        message = re.fullmatch(r"send \d+->\d+|recv \d+<-\d+", op)
                        self.assertEqual(entry["is_p2p"], message is not None)
                        self.assertTrue(message or op in collectives, op)
                        for side in ("input", "output"):
                            self.assertEqual(len(entry[f"{side}_sizes"]),
                                             len(entry[f"{side}_dtypes"]))
                        self.assertIn(entry["state"], ("started", "completed"))
                        self.assertEqual(entry["retired"], entry["state"] == "completed")
                        for field in ("pg_id", "collective_seq_id", "p2p_seq_id", "op_id",
                                      "time_created_ns", "time_discovered_started_ns",
                                      "timeout_ms"):
                            self.assertIsInstance(entry[field], int)
                        for frame in entry["frames"]:
                            self.assertEqual(set(frame), {"name", "filename", "line"})

    def test_the_analyzer_of_torch_reads_our_dumps(self):
        python = os.environ.get("SHARDLAB_TORCH_PYTHON", sys.executable)
        folders = []
        for path in self.hangs():
            self.recorded(path)
            folders.append(self.folder / f"{len(folders)}_{path.stem}")
            (self.folder / "fr").rename(folders[-1])
        done = subprocess.run([python, "-c", ANALYZE, *folders], capture_output=True,
                              encoding="utf-8", check=False)
        if done.returncode == 77:
            self.skipTest("no PyTorch with an analyzer of dumps: SHARDLAB_TORCH_PYTHON names one")
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said)
        self.assertNotIn("Traceback", said)
        self.assertIn(f"{len(folders)} folders", said)

    def fsdp_step(self):
        """The collectives of one step of a recorded program, and their modules and lines, as its
        file has them."""
        path = self.scenarios.parent / "tests/golden/recordings/ranks/fsdp_2__2.15.0.json.gz"
        calls = []
        shapes = {}
        # Elements follow behind the compressed lines.
        for line in zlib.decompressobj(31).decompress(path.read_bytes()).splitlines():
            event = json.loads(line)
            for value in event.get("out", []) + event.get("mut", []):
                if isinstance(value, dict) and "v" in value:
                    shapes[value["v"]] = value["shape"]
            if event["k"] != "coll":
                continue
            op = event["op"].removeprefix("c10d.").removesuffix(".default")
            calls.append({"op": {"_allgather_base_": "_all_gather_base",
                                 "_reduce_scatter_base_": "_reduce_scatter_base"}[op],
                          "out": shapes[event["args"][0]["v"]], "module": event.get("m", "")})
        return path, calls

    def test_a_recording_adds_module_and_branch(self):
        path, step = self.fsdp_step()
        self.assertEqual([call["module"] for call in step][:3], ["FSDPLlama", "layers.0", "output"])

        def dump(calls, ended):
            entries = []
            for i, call in enumerate(calls):
                gathers = call["op"] == "_all_gather_base"
                own = [size // 2 if gathers else size * 2 for size in call["out"]]
                done = i + 1 < len(calls) or not ended
                entries.append({
                    "record_id": i, "process_group": ["0", "default_pg"], "p2p_seq_id": 0,
                    "collective_seq_id": i + 1, "profiling_name": "nccl:" + call["op"],
                    "input_sizes": [own], "output_sizes": [call["out"]],
                    "input_dtypes": ["Float"], "output_dtypes": ["Float"], "is_p2p": False,
                    "state": "completed" if done else "started", "retired": done,
                    "time_created_ns": i,
                    "frames": [{"name": "step", "filename": "train.py",
                                "line": call.get("line", 10 + i % len(step))}]})
            return json.dumps({"version": "2.10", "entries": entries, "pg_config": {
                "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}}}).encode()

        # Of three ranks the last one calls something else in its second step.
        strange = {"op": "_all_gather_base", "out": [8], "line": 99}
        for place in range(1, len(step)):
            with self.subTest(place=place):
                right = step + step[:place + 1]
                wrong = step + step[:place] + [strange]
                name = self.dump(f"fsdp_{place}", {
                    "rank_0": dump(right, True), "rank_1": dump(right, True),
                    "rank_2": dump(wrong, True)})
                code, found, errors = self.autopsy(name, "--recording", path)
                self.assertEqual((code, found["culprits"]), (1, [2]), errors)
                said = "\n".join(found["recorded"])
                self.assertIn("train.py:99", said)
                if step[place]["module"]:
                    self.assertIn(f"at {step[place]['module']}  ", said)
                self.assertIn("no such fault", said)
                text = self.shardlab("autopsy", name, "--recording", path)[1]
                self.assertLessEqual(text.count("\n"), 12)
        foreign = [dict(strange, out=[2 * i + 2], line=50 + i) for i in range(6)]
        name = self.dump("foreign_program", {
            "rank_0": dump(foreign, True), "rank_1": dump(foreign, True),
            "rank_2": dump(foreign[:-1] + [strange], True)})
        found = self.autopsy(name, "--recording", path)[1]
        self.assertIn("is of another program: 0 of", found["recorded"][0])

    def test_a_recording_of_one_process_settles_a_tie(self):
        """Of two ranks one calls something else, in both orders: the program on a mesh decides."""
        path = self.scenarios.parent / "tests/golden/recordings/llama__2.15.0.json.gz"
        mesh = ("--mesh", "tp=2", "--plan", "megatron")
        dumps = {rank: pickle.loads(content)
                 for rank, content in self.recorded(path, *mesh)[1].items()}
        # By hand: the sums of the embedding and of each attention and feed-forward, then logits.
        modules = ["tok_embeddings", "layers.0.attention.wo", "layers.0.feed_forward.w2",
                   "layers.1.attention.wo", "layers.1.feed_forward.w2"]
        for place, module in enumerate(modules):
            for odd in (0, 1):
                files = {}
                for rank, dump in dumps.items():
                    entries = [
                        dict(entry, frames=[{"name": "step", "filename": "train.py",
                                             "line": 10 + entry["record_id"]}])
                        for entry in dump["entries"][:place + 1]]
                    entries[-1].update(state="started", retired=False)
                    if rank == odd:
                        entries[-1].update(profiling_name="nccl:broadcast", input_sizes=[[7]])
                    files[f"rank_{rank}"] = pickle.dumps(dict(dump, entries=entries), protocol=2)
                with self.subTest(module, odd=odd):
                    name = self.dump(f"tie_{place}_{odd}", files)
                    self.assertTrue(self.autopsy(name)[1]["tie"])
                    code, found, errors = self.autopsy(name, "--recording", path, *mesh)
                    self.assertEqual((code, found["culprits"], found["tie"]), (1, [odd], False),
                                     errors)
                    self.assertEqual(found["theirs"]["op"], "broadcast")
                    self.assertIn(f" at {module}  ", found["recorded"][0])
                    text = self.shardlab("autopsy", name, "--recording", path, *mesh)[1]
                    self.assertLessEqual(text.count("\n"), 12)

    def test_a_recording_that_hangs_itself(self):
        for name in ("zoo/both_send_first", "faults/deadlock", "zoo/one_rank_gathers_to_save"):
            with self.subTest(name):
                path = self.scenarios / f"{name}.toml"
                run = self.recorded(path)[0]
                found = self.autopsy("fr", "--recording", path)[1]
                self.assertIn("has a fault itself", found["recorded"][-1])
                line = found["line"] or found["ours"]["line"]
                self.assertIn(f"{path.name}:{line}", "\n".join(found["recorded"]))
                self.assertIn(run["error"]["text"].splitlines()[0], found["recorded"][-1])


if __name__ == "__main__":
    Autopsy.scenarios = pathlib.Path(sys.argv[2]).resolve()
    Autopsy.facts = pathlib.Path(sys.argv[3]).resolve()
    if "--mutations" in sys.argv:
        Autopsy.mutations = int(sys.argv[sys.argv.index("--mutations") + 1])
    with gzip.open(Autopsy.facts / "dumps.jsonl.gz", "rt", encoding="utf-8") as lines:
        Autopsy.cases = [json.loads(line) for line in lines]
    unittest.main(argv=sys.argv[:1])
