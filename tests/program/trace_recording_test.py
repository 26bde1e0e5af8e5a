#!/usr/bin/env python3
"""Programs that were recorded in PyTorch, as graphs: the file's data of each call is below the node
of its line, and the graph can be stopped, looked into, and written as a scenario.

    trace_recording_test.py PROGRAM FACTS/PROGRAMS
"""

import gzip
import json
import pathlib
import shutil
import sys
import unittest

import program

RECORDINGS = pathlib.Path(sys.argv[2]).resolve()
# Forward, backward and optimizers; meshes of one and two dims; even and uneven pieces; moves of
# pieces and of terms; values on a part of a mesh.
PROGRAMS = ("fsdp_mlp__4_uneven", "views2__2x2", "views__4_S2_uneven", "mlp_tp__4_uneven",
            "block_module_submesh__2x2", "mlp_tp_module__4", "block_dtensor__2x2",
            "optim_adam__2x2", "partial_chain__4_uneven", "redistribute__2x2x2_uneven")
OURS = {"all_gather_into_tensor": "all_gather", "reduce_scatter_tensor": "reduce_scatter",
        "all_reduce": "all_reduce", "shard_dim_alltoall": "all_to_all"}


def lines_of(path):
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def filled(fill, count):
    """The elements of an input of floats, by the formula of the facts' README."""
    seed, elements = fill["seed"], []
    for i in range(count):
        h = (i + 1) * 7919 + (seed + 1) * 104729 + ((i * i) % 251) * 31
        elements.append(fill["bias"] + fill["scale"] * ((h % 509) - 254) / 256)
    return elements


class Recordings(program.Program):
    def recorded(self, name):
        path = RECORDINGS / f"{name}.jsonl.gz"
        shutil.copy(path, self.folder)
        return path.name, lines_of(path)

    def plant_lines(self, *events):
        first = {"k": "program", "program": "planted", "mesh": [2], "mesh_dim_names": ["x"],
                 "backend": "local", "values": True, "n_values": 9}
        given = {"k": "input", "name": "a", "fill": {"seed": 0, "scale": 1.0, "bias": 0.0},
                 "v": 0, "shape": [4], "dtype": "f32", "placements": ["S(0)"]}
        texts = [e if isinstance(e, str) else json.dumps(e, separators=(",", ":"))
                 for e in (first, given, *events)]
        (self.folder / "r.jsonl").write_text("\n".join(texts) + "\n", encoding="utf-8")

    def test_what_is_damaged_is_refused_before_it_is_played(self):
        file, events = self.recorded("redistribute__2x2x2_uneven")
        whole = [json.dumps(event, separators=(",", ":")) for event in events]
        damages = [(0, '"mesh":[2,2,2]', '"mesh":[2,2,-1]', "'mesh' has to be a whole number"),
                   (0, '"mesh":[2,2,2]', '"mesh":[2,2,4294967296]', "'mesh' has over 4096 ranks"),
                   (1, '"v":0', '"v":99999999999', "'v' has to be a whole number from 0 to"),
                   (2, '"in"', '"\udcfe"', "not a line of a recording: no JSON from byte")]
        for line, old, new, says in damages:
            self.assertIn(old, whole[line])
            lines = list(whole)
            lines[line] = lines[line].replace(old, new, 1)
            text = "\n".join(lines) + "\n"
            (self.folder / "bad.jsonl").write_bytes(text.encode("utf-8", "surrogateescape"))
            for command in (["replay"], ["replay", "--json"], ["replay", "--until", "2"],
                            ["trace"]):
                code, output, errors = self.shardlab(*command, "bad.jsonl")
                self.assertEqual((code, output), (2, ""), errors)
                self.assertIn(f"bad.jsonl:{line + 1}: ", errors)
                self.assertIn(says, errors)

    def test_each_call_has_the_collectives_that_were_recorded(self):
        for name in PROGRAMS:
            with self.subTest(name=name):
                file, events = self.recorded(name)
                report = self.fine("trace", file, "--out", "g.graph")
                self.assertRegex(report.splitlines()[-1], "^ok .* replay bitwise$")
                found = {}
                for line in (self.folder / "g.graph").read_text("utf-8").splitlines():
                    node = json.loads(line)
                    kinds = found.setdefault(node.get("at", [0])[0], [])
                    kinds += [one["c"] for one in node.get("comm", [])]
                for number, event in enumerate(events, 1):
                    wanted = [OURS[one["c"]] for one in event.get("comm", [])]
                    self.assertEqual(found.get(number, []), wanted, f"{name}:{number}")

    def test_a_rank_can_be_looked_into_up_to_a_node(self):
        file, events = self.recorded("fsdp_mlp__4_uneven")
        told = self.fine("replay", file, "--until", "0", "--rank", "1").splitlines()
        first = events[1]
        rows, columns = first["shape"]
        self.assertEqual(first["placements"], ["S(0)"])
        chunk = -(-rows // 4)
        begin, end = (min(rows, chunk * rank) * columns for rank in (1, 2))
        wanted = filled(first["fill"], rows * columns)[begin:end][:8]
        shown = told[1].partition("[")[2].partition("]  [")[2].rstrip("]").split(", ")
        self.assertEqual([float(text) for text in shown if text != "..."], wanted)
        self.assertIn("as far as asked for", told[-1])

    def test_a_scenario_that_is_written_from_it_runs_and_is_right(self):
        for name in PROGRAMS:
            with self.subTest(name=name):
                file, _ = self.recorded(name)
                text = self.fine("trace", file, "--toml")
                self.fine("run", "--summary", text=text)

    def test_shapes_alone_are_told(self):
        file, _ = self.recorded("views2__4_S0")
        self.assertIn("on shapes\n", self.fine("replay", file, "--backend", "fake"))

    def test_a_graph_of_it_has_guards_and_the_recording_has_none(self):
        file, _ = self.recorded("views2__4_S0")
        scenario = self.fine("trace", file, "--toml")
        self.fine("trace", file, "--out", "g.graph")
        self.plant(s=scenario)
        self.assertIn("guards hold", self.fine("trace", "--check", "g.graph", "s.toml"))
        code, _, errors = self.shardlab("trace", "--check", file, "s.toml")
        self.assertEqual(code, 2)
        self.assertIn("a recording has no guards", errors)
        code, _, errors = self.shardlab("trace", "--check", "g.graph", file)
        self.assertEqual(code, 2)
        self.assertIn("facts are checked against a scenario, and this is a recording", errors)

    def test_what_does_not_exist_here_ends_the_program_and_is_named(self):
        none = {"k": "op", "op": "aten.no_such.default", "args": [{"v": 0}],
                "out": [{"v": 1, "shape": [4], "dtype": "f32", "placements": ["S(0)"]}]}
        self.plant_lines(none)
        code, report, _ = self.shardlab("trace", "r.jsonl")
        self.assertEqual(code, 1)
        self.assertIn("the program fails: aten.no_such.default does not exist here", report)
        self.plant_lines({**none, "op": "aten.neg.default", "args": [{"v": 7}]})
        code, report, _ = self.shardlab("trace", "r.jsonl")
        self.assertEqual(code, 1)
        self.assertIn("the program fails: nothing has given value 7", report)

    def test_damaged_lines_are_named(self):
        for line in ('{"k":"op",', '{"op":"aten.neg.default"}', '{"k":"check","v":99}', "[]",
                     '{"k":"op","args":[{"v":-1}]}', '{"k":"input","name":"b","v":1}'):
            with self.subTest(line=line):
                self.plant_lines(line)
                code, _, errors = self.shardlab("trace", "r.jsonl")
                self.assertEqual(code, 2, errors)
                self.assertIn("r.jsonl:3: not a line of a recording", errors)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
