#!/usr/bin/env python3
"""`shardlab blame`: the first wrong line, its cause, and an edit with which nothing differs.

    blame_test.py PROGRAM ZOO [--every N]

The oracle are the files of the zoo: each says the cause of its bug and the line to look at. An edit
that is printed is made in the file here, and the file must then run without a difference. --every N
takes each N-th file.
"""

import json
import pathlib
import re
import sys
import unittest

from program import Program

ZOO = pathlib.Path(sys.argv[2]).resolve()
EVERY = int(sys.argv[4]) if len(sys.argv) > 4 else 1
PROVEN = 0.5  # of the bugs; a hang of a program that fails on one device, too, has no proof

# The edits that the healthy twins make, where they are of one line and no other one is as near.
AS_IN_TWIN = """bias_before_the_scatter bias_before_the_sum gradient_of_a_norm_not_summed
    gradient_of_experts_not_summed gradients_summed_not_averaged input_gradient_not_summed
    norm_of_own_experts number_added_to_each_term one_mask_for_all_ranks positions_without_offset
    replica_called_a_term keys_gathered_without_gradient mean_of_uneven_shards
    norm_over_one_of_two_groups""".split()


# Bugs of which numbers tell no cause: blame has the edit that mends them, and its line.
BY_EDIT = {"cut_again_in_another_order": (10, "cause.some-ranks"),
           "keys_gathered_without_gradient": (11, "cause.some-ranks"),
           "micro_batch_means": (13, "cause.uneven-mean")}


def expected(text):
    cause = re.search(r'^cause = "([^"]*)"', text, re.MULTILINE)
    return int(re.search(r"^line = (\d+)", text, re.MULTILINE)[1]), cause[1] if cause else None


def mended(text, edit):
    """The file with the edit made, and without what it says of its bug."""
    lines = text.splitlines()
    for change in reversed(edit["changes"]):
        place = slice(change["line"] - 1, change["line"] - 1 + len(change["before"]))
        assert lines[place] == change["before"], edit
        lines[place] = change["after"]
    return re.sub(r"^(cause|line|error|verdict) = .*\n", "", "\n".join(lines) + "\n",
                  flags=re.MULTILINE)


class Zoo(Program):
    def test_each_bug(self):
        names = [path for path in sorted(ZOO.glob("*.toml")) if not path.stem.endswith("_right")]
        self.assertGreaterEqual(len(names), 100)
        chosen, proven = names[::EVERY], []
        for path in chosen:
            with self.subTest(path.stem):
                text = path.read_text(encoding="utf-8")
                code, out, err = self.shardlab("blame", "--json", str(path))
                self.assertEqual((code, err), (1, ""))
                told = json.loads(out)
                self.assertEqual((told["line"], told.get("cause_id")),
                                 BY_EDIT.get(path.stem, expected(text)))
                self.assertEqual(told["text"], text.splitlines()[told["line"] - 1].strip())
                for number, edit in enumerate(told["edits"]):
                    self.plant(**{f"{path.stem}_{number}": mended(text, edit)})
                if told["edits"]:
                    proven.append(path.stem)
                twin = (ZOO / f"{path.stem}_right.toml").read_text(encoding="utf-8")
                if path.stem in AS_IN_TWIN:
                    changes = told["edits"][0]["changes"]
                    self.assertIn("\n".join(changes[0]["after"]), twin)
        self.assertIn(" 0 failed", self.fine("test", "."))
        print(f"{len(chosen)} bugs: all with their line and cause, {len(proven)} with an edit")
        self.assertGreaterEqual(len(proven), PROVEN * len(chosen))


class Blame(Program):
    def test_what_follows_and_what_does_not(self):
        self.plant(t="""
            [mesh]
            tp = 2
            [inputs]
            x = "f32[4, 6@tp]"
            w = "f32[6@tp, 3]"
            v = "f32[4, 4@tp]"
            [program]
            code = '''
            y = from_local(x.to_local() @ w.to_local(), mesh=mesh)
            z = y * 2
            s = from_local(v.to_local().sum(1), mesh=mesh)
            '''
            """.replace("            ", ""))
        told = json.loads(self.shardlab("blame", "--json", "t.toml")[1])
        self.assertEqual(told["line"], 10)
        self.assertEqual([(one["name"], one["follows"]) for one in told["later"]],
                         [("z", True), ("s", False)])
        # An edit of one place undoes one of two mistakes: the other one is next.
        after = told["next"]
        self.assertEqual((after["line"], after["cause_id"]), (12, "cause.missing-sum"))
        for one, line in ((told, 10), (after, 12)):
            self.assertEqual([change["line"] for change in one["edits"][0]["changes"]], [line])

    def test_equal_sizes_are_told_apart(self):
        """dp and cp have two ranks each, and the edit holds where they have others, too."""
        path = ZOO / "loss_scale_of_context_parallel.toml"
        told = json.loads(self.shardlab("blame", "--json", str(path))[1])
        self.plant(t=mended(path.read_text(encoding="utf-8"), told["edits"][0]))
        for dim in ("mesh.dp=3", "mesh.cp=4"):
            self.fine("run", "--summary", "--set", dim, "t.toml")

    def test_a_program_in_the_words_of_pytorch(self):
        """The gradient of a weight that all ranks have is a term on each; the edit says so."""
        out = self.shardlab("blame", "--json", text="""
[mesh]
dp = 2
tp = 2
[inputs]
x = "f32[8@dp, 6@tp, 4]"
w = { type = "f32[4]", requires_grad = true }
[program]
code = '''
from torch.distributed.tensor import DTensor, Shard
mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("dp", "tp"))
out = x.to_local() * w.to_local()
y = DTensor.from_local(out, mesh, [Shard(0), Shard(1)])
y.pow(2).mean().backward()
'''
""")[1]
        told = json.loads(out)
        self.assertEqual(told["line"], 12)
        after = [change["after"] for edit in told["edits"] for change in edit["changes"]]
        self.assertIn(["out = x.to_local() * w.to_local(grad_placements=[P(sum), P(sum)])"], after)

    def test_placements_in_a_list(self):
        """Replicas that are labelled as pieces or as terms: the list is edited, in its own words,
        also on a submesh, whose values have causes as those of the mesh."""
        for call, cause, right in (
                ('from_local(t, mesh=mesh["tp"], placements=[Shard(0)])', "cause.other-label",
                 'from_local(t, mesh=mesh["tp"], placements=[Replicate()])'),
                ('from_local(t, mesh["tp"], [P(sum)])', "cause.factor",
                 'from_local(t, mesh["tp"], [R])'),
                ("DTensor.from_local(t, mesh, (Replicate(), Shard(1)))", "cause.other-label",
                 "DTensor.from_local(t, mesh, (Replicate(), Replicate()))")):
            with self.subTest(call=call):
                told = json.loads(self.shardlab("blame", "--json", text=f"""
[mesh]
dp = 2
tp = 2
[program]
code = '''
t = torch.randn(4, 6)
y = {call}
'''
""")[1])
                self.assertEqual((told["line"], told["cause_id"]), (8, cause))
                after = [change["after"] for edit in told["edits"] for change in edit["changes"]]
                self.assertIn([f"y = {right}"], after)

    def test_what_one_device_computes_stays(self):
        """Buffers that all ranks fill with zeros fit together, and rank 0 has lost its rows; the
        largest tokens of all ranks are no rank's own."""
        for code in ("""
order = torch.arange(6)
for step in range(2):
    b = order[4 * step:4 * step + 4]
    if rank != 0:
        b = torch.zeros([4], dtype=torch.int64)
    dist.broadcast(b, src=0)
    y = x.full_tensor()[b].sum()
""", """
own = x.to_local()
kept = own[(own.abs().sum(-1) > 0).nonzero().view(-1)]
if kept.shape[0] > 0:
    dist.all_reduce(kept.sum())
"""):
            with self.subTest(code=code):
                told = json.loads(self.shardlab("blame", "--json", text=f"""
[mesh]
dp = 2
[inputs]
x = {{ type = "f32[6@dp, 2]", values = [[1, 2], [3, 1], [1, 1], [0, 0], [0, 0], [0, 0]] }}
[program]
code = '''{code}'''
""")[1])
                after = [line for edit in told["edits"] for change in edit["changes"]
                         for line in change["after"]]
                self.assertNotIn("    b = torch.zeros([4], dtype=torch.int64)", after)
                self.assertEqual([line for line in after if line.startswith("own = all_reduce")],
                                 [])

    def test_edits_hold_elsewhere(self):
        """Each program has an edit that is right by chance: for these ranks and this width, for
        these documents, on ranks that take no part. None of them is offered."""
        cases = {
            "(h / ": ("tp = 2", 'x = "f32[3, 8@tp]"', """
h = x.to_local()
s = all_reduce(h.pow(2).sum(-1, keepdim=True), "sum", group="tp") / mesh.size("tp")
out = from_local(h * torch.rsqrt(s + 1e-6), mesh=mesh, tp=S(1))
""", "[reference]\ncode = 'out = F.rms_norm(x, [8], None, 1e-6)'"),
            "all_reduce((local": (
                "cp = 2", 'ids = { type = "i64[8]", values = [5, 0, 3, 4, 2, 0, 1, 6] }\n'
                'x = "f32[8, 3]"', """
local = distribute(ids.to_local(), mesh=mesh, cp=S(0)).to_local()
doc = (local == 0).cumsum(0) + 2 * mesh.coordinate("cp")
same = doc[:, None] == all_gather(doc, 0, group="cp")[None, :]
out = from_local(same.float() @ x.to_local(), mesh=mesh, cp=S(0))
""", ""),
            "out = y$": ("tp = 2", 'x = "f32[3, 8@tp]"\nw = "f32[8@tp, 5]"', """
y = dist.all_reduce(x.to_local() @ w.to_local(), group=mesh.get_group("tp"))
out = from_local(y, mesh=mesh)
""", ""),
            "d = t$": ("x = 4", 'u = "f32[2]"', """
t = torch.arange(2 * (2 + rank), dtype=f32).view(2, 2 + rank)
d = from_local(t, mesh=mesh, x=S(1), shape=[2, 14])
""", ""),
            '"min"': ("dp = 2", 'x = { type = "f32[2@dp]", values = [1, 3e38] }', """
steps = 0
w = x.to_local()
for i in range(6):
    if not torch.isinf(w * 10).any().item():
        steps += 1
    if steps % 3 == 0 and steps > 0:
        w = all_reduce(w, "avg", group="dp")
""", ""),
            "all_reduce(all_reduce": ("dp = 2", 'x = "f32[4@dp, 3]"', """
g = x.to_local() * 2
dist.all_reduce(g)
per_sample = from_local(g, mesh=mesh, dp=S(0))
""", "")}
        for part, (mesh, inputs, code, rest) in cases.items():
            with self.subTest(part=part):
                told = json.loads(self.shardlab("blame", "--json", text=f"""
[mesh]
{mesh}
[inputs]
{inputs}
[program]
code = '''{code}'''
{rest}
""")[1])
                self.assertFalse(told["ok"])
                after = [line for edit in told["edits"] for change in edit["changes"]
                         for line in change["after"]]
                self.assertEqual([line for line in after if part in line + "$"], [])

    def test_nothing_is_wrong(self):
        twin = ZOO / "bias_before_the_sum_right.toml"
        self.assertIn("nothing is wrong", self.fine("blame", str(twin)))


class TwoRuns(Program):
    def two(self, first, second, *options):
        for name, tp in (("a.json", first), ("b.json", second)):
            path = str(ZOO / "bias_before_the_sum.toml")
            out = self.shardlab("run", "--json", "--values", "all", "--set", f"mesh.tp={tp}", path)
            (self.folder / name).write_text(out[1], encoding="utf-8")
        return self.shardlab("blame", *options, "a.json", "b.json")

    def test_the_first_value_that_differs(self):
        """The bias counts once a rank, so that y and what follows depend on the mesh."""
        code, out, _ = self.two(2, 4, "--json")
        told = json.loads(out)
        self.assertEqual((code, told["ok"]), (1, False))
        self.assertEqual([one["name"] for one in told["differ"]], ["y", "out"])
        self.assertIn("cause.term-added", told["differ"][0]["a"])
        self.assertIn("cause.term-added", told["differ"][0]["b"])
        self.assertTrue(told["differ"][0]["at"].endswith(":12:1"))
        self.assertIn("y (", self.two(2, 4)[1].splitlines()[1])

    def test_runs_that_agree(self):
        code, out, _ = self.two(3, 3)
        self.assertEqual(code, 0)
        self.assertIn("no value differs", out)

    def test_scenarios_are_run(self):
        pair = [str(ZOO / f"bias_before_the_sum{end}.toml") for end in ("", "_right")]
        code, out, _ = self.shardlab("blame", *pair)
        self.assertEqual(code, 1)
        self.assertIn("B agrees with one device", out)

    def test_other_files_are_refused(self):
        (self.folder / "a.json").write_text("{}", encoding="utf-8")
        code, _, err = self.shardlab("blame", "a.json", "a.json")
        self.assertEqual(code, 2)
        self.assertIn("a.json:1", err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
