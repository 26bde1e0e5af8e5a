#!/usr/bin/env python3
"""Users may rely on the contents of sim/contract.md and sim/ids.md, and the program keeps them.

    contract_test.py PROGRAM ROOT

The program is run so that every command shows all of its keys. Each key that it prints, each option
that it takes and each variable that it reads is on the page; all that is on the page is printed,
taken and read.
"""

import gzip
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree
import zlib

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
ROOT = pathlib.Path(sys.argv[2]).resolve()
PAGE = "".join((ROOT / "sim" / page).read_text("utf-8") for page in ("contract.md", "ids.md"))

# Keys that no shipped scenario shows: a wrong call, values that ranks hold for themselves, ...
PLANTED = {
    "wrong": """
        [mesh]
        tp = 2
        [inputs]
        x = "f32[8@tp, 16]"
        w = { type = "f32[16, 4]", requires_grad = true }
        [program]
        code = '''
        y = from_local(x.to_local() + 1.0 * rank, mesh=mesh, tp=S(0))
        z = from_local((x @ w).to_local() * (1 + rank), mesh=mesh)
        print(x.to_local().sum().item())
        loss = (x @ w).pow(2).mean()
        loss.backward()
        '''
        [expect]
        grads = ["w"]
        [reference]
        code = '''
        y = x + 0
        '''
        """,
    "waits": """
        [mesh]
        tp = 2
        [inputs]
        x = "f32[8@tp, 16]"
        [program]
        code = '''
        y = x.redistribute(tp=R, async_op=True)
        z = y * 2
        '''
        """,
    "warns": """
        [mesh]
        tp = 2
        [inputs]
        x = "f32[8@tp, 16]"
        [program]
        code = '''
        y = x.sum()
        z = y.pow(2)
        '''
        [expect]
        implicit = "warn"
        """,
    "fails": """
        [mesh]
        tp = 2
        [inputs]
        x = "f32[8@tp, 16]"
        [program]
        code = '''
        if rank == 1:
            assert False
        barrier()
        '''
        """,
}
WHOLE = ("--json", "--values", "3", "--memory-timeline")


def section(title):
    """The text below a heading, up to the next heading of its level or above."""
    level = title.split(" ")[0]
    begin = PAGE.index(f"\n{title}\n") + len(title) + 2
    end = re.compile(rf"^#{{1,{len(level)}}} ", re.MULTILINE).search(PAGE, begin)
    return PAGE[begin : end.start() if end else len(PAGE)]


def cells(text):
    """(names in the first column, names in the second) of each row of its tables."""
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("|--"):
            columns = line.strip("| ").split(" | ")
            yield [re.findall(r"`([^`]+)`", column) for column in (*columns, "")[:2]], columns[0]


def listed(title):
    """The names in the first column below a heading; `.name` and `[]` continue the last one that
    begins a path. Containers of listed names are listed."""
    names = set()
    for (spans, _), _ in cells(section(title)):
        base = ""
        for span in spans:
            below = span[0] == "." or (span[0] == "[" and base[:1] not in ("", "["))
            base = base if below else span
            names |= containers(base + span if below else span)
    return names


def containers(path):
    ends = [at for at, letter in enumerate(path) if letter in ".[" and at > 0]
    return {path, *(path[:end] for end in ends)} - {""}


def paths_of(value, path, found):
    """Adds every path in it, `[]` for each entry of a list, with the texts that are there."""
    texts = found.setdefault(path, set())
    if isinstance(value, dict):
        for key, part in value.items():
            paths_of(part, f"{path}.{key}" if path else key, found)
    elif isinstance(value, list):
        for part in value:
            paths_of(part, path + "[]", found)
    elif isinstance(value, str):
        texts.add(value)


def any_name(path, known):
    """The path as KNOWN has it: `*` is any name, and parts of an order are entries of it."""
    path = re.sub(r"^order\[\](\.parts\[\])+", "order[]", path)
    steps = path.split(".")
    for name in known:
        pattern = name.split(".")
        if len(pattern) == len(steps) and all(a in (b, "*") for a, b in zip(pattern, steps)):
            return name
    return path


class Contract(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        for name, text in PLANTED.items():
            lines = (line.removeprefix(" " * 8) for line in text.splitlines())
            (cls.folder / f"{name}.toml").write_text("\n".join(lines), encoding="utf-8")
        cls.runs = {}
        shipped, planted = (ROOT / "scenarios").rglob("*.toml"), cls.folder.glob("*.toml")
        for path in (*sorted(shipped), *sorted(planted)):
            if path.parent.name == "zoo":  # small programs of the kinds that the others show
                continue
            options = WHOLE if path.parent.name != "llama3" else WHOLE[:1]
            cls.keys_of("run", *options, str(path), found=cls.runs)
        more = ("--scheduler", "seeded", "--rank", "1")
        cls.keys_of("run", "--json", *more, "waits.toml", found=cls.runs)

    @classmethod
    def shardlab(cls, *arguments, text=None):
        done = subprocess.run(
            [PROGRAM, *arguments], cwd=cls.folder, env={**os.environ, "NO_COLOR": "1"}, input=text,
            capture_output=True, encoding="utf-8", timeout=120, check=False,
        )
        return done.returncode, done.stdout, done.stderr

    @classmethod
    def keys_of(cls, *arguments, text=None, found=None):
        """The paths in the output of a command, one object or list, or one a line; added to
        FOUND."""
        found = {} if found is None else found
        _, output, errors = cls.shardlab(*arguments, text=text)
        assert output, (arguments, errors)
        try:
            paths_of(json.loads(output), "", found)
        except json.JSONDecodeError:
            for line in output.splitlines():
                paths_of(json.loads(line), "", found)
        return found

    def same(self, title, paths, unseen=()):
        """PATHS are those below the heading; UNSEEN: paths that no run here can show."""
        known = listed(title)
        found = {any_name(path, known) for path in paths} - {""}
        self.assertEqual(found - known, set(), f"printed, and not on the page: {title}")
        self.assertEqual(known - found - set(unseen), set(), f"on the page only: {title}")

    def test_commands_and_options(self):
        _, script, _ = self.shardlab("completion", "bash")
        taken = {}
        for command, words in re.findall(r"^    ([\w-]+)\) options=\"(.*)\"", script, re.MULTILINE):
            taken[command] = set(words.split())
        told = {command: set() for command in taken}
        for (commands, options), first in cells(section("## Commands and options")):
            if first.startswith("all"):
                commands = set(taken) - set(commands)
            for command in commands:
                told.setdefault(command, set()).update(options)
        self.assertEqual(taken, told)

    def test_exit_codes(self):
        _, overview, _ = self.shardlab("--help")
        said = overview.partition("Exit codes:")[2]
        told = [first for _, first in cells(section("## Exit codes")) if first != "code"]
        self.assertEqual(re.findall(r"\b\d+\b", said), told)
        self.assertEqual(self.shardlab("run", "waits.toml")[0], 0)
        self.assertEqual(self.shardlab("run", "wrong.toml")[0], 1)
        self.assertEqual(self.shardlab("run", "absent.toml")[0], 2)
        loop = "[mesh]\ntp = 2\n[program]\ncode = '''\nfor i in range(9999999):\n    i + 1\n'''\n"
        (self.folder / "loop.toml").write_text(loop, encoding="utf-8")
        with subprocess.Popen(
            [PROGRAM, "run", str(self.folder / "loop.toml")],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as running:
            time.sleep(0.5)
            running.send_signal(signal.SIGINT)
        self.assertEqual(running.returncode, 130)

    def test_variables(self):
        read = {"NO_COLOR", "TORCHELASTIC_ERROR_FILE"}
        for folder in ("src", "sim", "backends"):
            for path in (ROOT / folder).rglob("*.*"):
                if path.suffix in (".cpp", ".h", ".py"):
                    read |= set(re.findall(r'"(SHARDLAB_[A-Z_]+)"', path.read_text("utf-8")))
        read.discard("SHARDLAB_RECORD_RANK")  # between two processes of the recorder
        self.assertEqual(read, listed("## Environment variables"))

    def test_run(self):
        # Only where ranks are processes, or on a GPU.
        # Ranks are lost in jobs of processes only: tests/mpi/lost_part_test.py.
        unseen = {"calls.not_judged", "ran_on_host[]", "lost", "lost[]"}
        self.same("## `run --json`", self.runs, unseen)

    def test_words(self):
        sources = ""
        for folder in ("src", "sim"):
            for path in (ROOT / folder).rglob("*.cpp"):
                sources += path.read_text("utf-8")
        found = dict(self.runs)
        fsdp = str(ROOT / "scenarios/models/fsdp_linear.toml")
        self.keys_of("doctor", "--json", found=found)
        self.keys_of("trace", "--json", fsdp, found=found)
        self.autopsies(found)
        for (places, words), _ in cells(section("## Words")):
            for place in places:
                self.assertEqual(found[place] - set(words), set(), place)
                for word in set(words) - found[place]:
                    self.assertIn(f'"{word}"', sources, place)

    def test_trace_and_replay(self):
        fsdp, found = str(ROOT / "scenarios/models/fsdp_linear.toml"), {}
        for file in (fsdp, "wrong.toml"):
            self.keys_of("trace", "--json", file, found=found)
        for form in ("dot", "toml"):
            plain = self.shardlab("trace", f"--{form}", fsdp)[1]
            self.assertEqual(
                self.keys_of("trace", "--json", f"--{form}", fsdp, found=found)[form], {plain})
        self.same("## `trace --json`", found)
        self.shardlab("trace", "--out", "step.graph", fsdp)
        self.same("## `replay --json`", self.keys_of("replay", "--json", "step.graph"))
        recording = str(ROOT / "tests/golden/recordings/gammas__2.15.0.json.gz")
        self.same("## `replay RECORDING --json`", self.keys_of("replay", "--json", recording),
                  {"missing[]", "rules[]", "differences[]"})

    def test_shrink_and_blame(self):
        one = str(ROOT / "scenarios/zoo/bias_before_the_sum.toml")
        self.same("## `shrink --json`", self.keys_of("shrink", "--json", one))
        found = self.keys_of("blame", "--json", one)
        self.keys_of("blame", "--json", "wrong.toml", found=found)
        self.keys_of("blame", "--json", one, "wrong.toml", found=found)
        recordings = ROOT / "tests/golden/recordings/mistakes"
        self.keys_of("blame", "--json", str(recordings / "tp_one.json.gz"),
                     str(recordings / "tp_no_sum_of_down.json.gz"), found=found)
        typed = ROOT / "tests/golden/recordings/typed"
        inflater = zlib.decompressobj(31)
        lines = inflater.decompress((typed / "llama_4.json.gz").read_bytes()).decode()
        claim = re.compile(r'("call":"assert_type".*?"type":")S\(0\)')
        (self.folder / "claim.json.gz").write_bytes(
            gzip.compress(claim.sub(r"\1S(1)", lines, count=1).encode()) + inflater.unused_data)
        self.keys_of("blame", "--json", str(typed / "llama_1.json.gz"), "claim.json.gz",
                     found=found)
        self.same("## `blame --json`", found, {"call"})  # no plain program has a wrong call

    def autopsies(self, found):
        """Adds the keys of dumps that differ, of a circle, and of a file that ends early."""
        for name in ("faults/divergent_collectives", "zoo/both_send_first", "faults/deadlock"):
            self.shardlab("run", "--flight-recorder", "dumps",
                          str(ROOT / "scenarios" / f"{name}.toml"))
            self.keys_of("autopsy", "--json", "dumps", found=found)
        last = self.folder / "dumps" / "shardlab_rank_2"
        last.write_bytes(last.read_bytes()[:-40])
        (self.folder / "dumps" / "shardlab_rank_1").unlink()
        # Two groups, in each of which one rank calls something else.
        (self.folder / "two").mkdir(exist_ok=True)
        for rank in range(8):
            group = str(rank // 4)
            ranks = str(list(range(8))[rank // 4 * 4:][:4])
            ops = ["all_reduce", "broadcast" if rank in (1, 6) else "all_reduce"]
            entries = [{"record_id": i, "process_group": [group, "dp"], "collective_seq_id": i + 1,
                        "profiling_name": "nccl:" + op, "state": "started", "retired": False,
                        "time_created_ns": i, "is_p2p": False} for i, op in enumerate(ops)]
            (self.folder / "two" / f"rank_{rank}.json").write_text(json.dumps(
                {"pg_config": {group: {"name": group, "desc": "dp", "ranks": ranks}},
                 "entries": entries}), encoding="utf-8")
        self.keys_of("autopsy", "--json", "two", found=found)
        return self.keys_of("autopsy", "--json", "dumps", found=found)

    def test_autopsy(self):
        self.same("## `autopsy --json`", self.autopsies({}))

    def test_prove(self):
        found = {}
        for name in ("any_sender", "head_on", "poll"):
            self.keys_of("prove", "--json", str(ROOT / f"scenarios/hangs/{name}.toml"), found=found)
        sends = "0F0,0SEND_F0,0F1,0SEND_F1,0WAIT_SEND_F0,0WAIT_SEND_F1\n"
        for csv in (sends + "1RECV_F1,1F1,1RECV_F0,1F0\n", "0F0,0JUMP0\n"):
            (self.folder / "s.csv").write_text(csv, encoding="utf-8")
            self.keys_of("prove", "--json", "s.csv", found=found)
        self.same("## `prove --json`", found)

    def test_advise(self):
        found = self.keys_of("advise", "--json", str(ROOT / "scenarios/smoke/language.toml"))
        self.keys_of("advise", "--json", "wrong.toml", found=found)
        self.same("## `advise --json`", found)

    def test_completion(self):
        self.same("## `completion --json`", self.keys_of("completion", "bash", "--json"))

    def test_show(self):
        self.same("## `show --json`", self.keys_of("show", "--json", "f32[10@x]", "--mesh", "x=3"))

    def test_checkpoints(self):
        corpus = ROOT / "tests/golden/checkpoints"
        found = self.keys_of("show", "--json", str(corpus / "nested_objects"))
        self.keys_of("show", "--json", str(corpus / "hf_2_consolidated"), found=found)
        (self.folder / "holes").mkdir()
        whole = corpus / "hf_2_consolidated_integers"
        for number in ("2", "3"):
            shard = f"holes/shard-0000{number}-model-00001-of-00001.safetensors"
            (self.folder / shard).write_bytes(
                (whole / "shard-00002-model-00001-of-00001.safetensors").read_bytes())
        self.keys_of("show", "--json", "holes", found=found)
        self.same("## `show CHECKPOINT --json`", found)
        self.same("## `reshard --json`", self.keys_of(
            "reshard", "--json", str(corpus / "dtypes_2"), "d.safetensors", "--drop", "f8"))
        found = {}
        for pair in ("0003_fused_qkv_cut_as_a_whole", "0020_other_values", "0021_tensor_missing"):
            folder = corpus / "pairs" / pair
            self.keys_of("reshard", "--check", "--json", str(folder / "a.safetensors"),
                         str(folder / "b.safetensors"), found=found)
        self.same("## `reshard --check --json`", found, {"others[]"})
        folder = ROOT / "sim/checkpoint"
        sources = "".join(path.read_text("utf-8") for path in folder.glob("*.cpp"))
        for (ids, _), _ in cells(section("## Mistakes in checkpoints")):
            for one in ids:
                self.assertIn(f'"{one}"', sources)

    def test_plan(self):
        found = {}
        for source, target in (("f32[6@x]", "f32[6@y]"), ("f32[6@(y,x)]", "f32[6]"),
                               ("f32[6]{avg:(x,y)}", "f32[6]")):
            self.keys_of("plan", "--json", source, target, "--mesh", "x=2,y=3", "--flatten", "x,y",
                         found=found)
        self.keys_of("plan", "--batch", "-", text='{"source": "f32[6]"}\n', found=found)
        self.keys_of("plan", "--json", "f32[8@w]", "f32[8@a]", "--from-mesh", "w=4",
                     "--to-mesh", "a=2", found=found)
        self.same("## `plan --json`", found)

    def test_explain(self):
        found = self.keys_of(
            "explain", "--json", "F.linear", "f32[8@x, 16]", "f32[4, 16]", "--mesh", "x=2")
        one = self.keys_of(
            "explain", "--json", "mm", "f32[7@x, 16]", "f32[16, 4]", "--mesh", "x=8")
        found |= {f"calls[].{path}": texts for path, texts in one.items() if path}
        self.same("## `explain --json`", found)

    def test_ops(self):
        self.same("## `ops --json`", self.keys_of("ops", "--json", "mm"))

    def test_verify_ops(self):
        found = {}
        for pattern in ("view", "view_as_complex", "binary_cross_entropy"):
            self.keys_of("verify-ops", "--json", "--details", pattern, found=found)
        drops = str(ROOT / "scenarios/ops/own_rule_that_drops.toml")
        self.keys_of("verify-ops", "--json", "--mesh", "2", "--rules", drops, found=found)
        self.same("## `verify-ops --json`", found)

    def test_diff(self):
        for name, seed in (("a.json", 0), ("b.json", 1)):
            _, output, _ = self.shardlab(
                "run", "--json", "--values", "all", "--seed", str(seed), "waits.toml")
            (self.folder / name).write_text(output, encoding="utf-8")
        self.same("## `diff --json`", self.keys_of("diff", "--json", "a.json", "b.json"))

    def test_gate(self):
        for name, options in (("a.json", ()), ("b.json", ("--set", "mesh.dp=2"))):
            _, output, _ = self.shardlab(
                "run", "--json", *options, str(ROOT / "scenarios/models/fsdp_linear.toml"))
            (self.folder / name).write_text(output, encoding="utf-8")
        found = self.keys_of("diff", "--json", "--gate", "time,peak", "a.json", "b.json")
        text = (self.folder / "b.json").read_text(encoding="utf-8")
        (self.folder / "b.json").write_text(text.replace('"ok":true', '"ok":false'))
        found = self.keys_of("diff", "--json", "--gate", "time", "a.json", "b.json", found=found)
        self.same("## `diff --gate --json`", found)

    def test_causes(self):
        source = (ROOT / "sim" / "scenario" / "cause.h").read_text(encoding="utf-8")
        ids = set(re.findall(r'= "(cause\.[a-z-]+)"', source))
        self.assertGreater(len(ids), 5)
        self.assertEqual(ids, set(re.findall(r"^\| `(cause\.[a-z-]+)` \|", PAGE, re.MULTILINE)))

    def test_doctor(self):
        self.same("## `doctor --json`", self.keys_of("doctor", "--json"))

    def test_junit(self):
        (self.folder / "unreadable.toml").write_text("[mesh\n", encoding="utf-8")
        files = ("wrong.toml", "waits.toml", "unreadable.toml")
        self.shardlab("test", "--junit", "results.xml", *files)
        tree = xml.etree.ElementTree.parse(self.folder / "results.xml")
        found = set()
        for element in tree.iter():
            found |= {element.tag, *(f"{element.tag}.{name}" for name in element.attrib)}
        # Only in a job whose ranks are processes.
        self.assertEqual(found | {"skipped", "skipped.message"}, listed("## JUnit"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
