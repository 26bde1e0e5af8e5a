#!/usr/bin/env python3
"""Every shipped scenario takes the same decisions on threads and on processes.

usage: decisions_test.py SHARDLAB BACKEND LAUNCHER SCENARIO...

Runs each file on backend threads, and all files of one world size in one job of the launcher
(mpirun, or tests/support/ranks.py for nccl). The logs of decisions (op, chosen row, plan steps),
collectives, values and findings are equal byte for byte; OWN lists the parts that may differ.
"""

import collections
import concurrent.futures
import functools
import json
import pathlib
import re
import sys
import tempfile
import unittest

from job import output, reports

# Parts of a report about how the run was made. `work` is not reported by processes.
OWN = ("backend", "scheduler", "kernels", "again", "workers", "sharing", "calls", "work")
SHARDLAB, BACKEND, LAUNCHER, SCENARIOS = "", "", "", []


def comparable(report):
    report = {key: value for key, value in report.items() if key not in OWN}
    # Graphs are captured, and steps noted for other transports, if all ranks share a process; else
    # a warning is given.
    report["expectations"] = [one for one in report.get("expectations", []) if one["what"] not in
                              ("graph", "graphs", "graph_breaks", "transports")]
    not_seen = re.compile(r"\[expect\]: (graphs|transports) are not looked at")
    report["warnings"] = [one for one in report.get("warnings", []) if not not_seen.match(one)]
    # Ranks of one process share memory, those of several cannot.
    memory = report.pop("memory")
    # NCCL's memory in addition to inputs and results is the rank's own.
    if BACKEND != "nccl":
        report["memory"] = {key: memory[key] for key in ("logical_rank_bytes", "peak")}
    return report


# 5 rows over 4 ranks: pieces of 2, 2, 1 and no row.
PRINTS = """
[mesh]
x = 4
[inputs]
a = "f32[5@x, 3]"
[program]
code = '''
print("all")
print("rows", a.to_local().shape[0])
if rank == 3:
    print("the last")
'''
"""


@functools.cache
def found_of(path):
    """The reports of a scenario on threads, one for each point of its matrix."""
    _, text, _ = output(SHARDLAB, "run", "--json", path)
    return reports(text)


class SameDecisions(unittest.TestCase):
    maxDiff = 2000

    def test_what_processes_print_is_shown_with_their_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "prints.toml")
            path.write_text(PRINTS, encoding="utf-8")
            code, text, errors = output(LAUNCHER, "-n", 4, SHARDLAB, "run", "--json", "--backend",
                                        BACKEND, path)
        self.assertEqual(code, 0, errors)
        self.assertEqual([(line["text"], line["by"]) for line in reports(text)[0]["printed"]],
                         [("all", "all"), ("rows 2", "ranks 0,1"), ("rows 1", "rank 2"),
                          ("rows 0", "rank 3"), ("the last", "rank 3")])

    def check(self, expected, got):
        name = f"{expected['file']} {expected['point']}"
        # A process counts its own caches: the questions of its one rank. The fabric of threads has
        # a log, from which orders of ranks are promised.
        for part in sorted((set(expected) | set(got)) - {"caches", "promise"}):
            with self.subTest(name, part=part):
                self.assertEqual(
                    json.dumps(expected.get(part), sort_keys=True),
                    json.dumps(got.get(part), sort_keys=True),
                )

    def test_deadlocks_of_messages_are_reported_alike(self):
        wrong = pathlib.Path(__file__).resolve().parents[1] / "verdicts" / "wrong"
        for name in ("interleaved_that_blocks", "one_forward_one_backward_that_blocks"):
            path = wrong / f"{name}.toml"
            _, expected, _ = output(SHARDLAB, "run", "--json", path)
            _, got, _ = output(LAUNCHER, "-n", 4, SHARDLAB, "run", "--json", "--backend", BACKEND,
                               path)
            self.assertIn("wait for each other", reports(expected)[0]["error"]["text"])
            self.assertEqual(reports(got)[0]["error"], reports(expected)[0]["error"])

    def test_graphs_of_all_shipped_scenarios_are_replayed(self):
        by_world = collections.defaultdict(list)
        with tempfile.TemporaryDirectory() as folder:
            traces = []
            for path in SCENARIOS:
                for report in found_of(path):
                    graph = pathlib.Path(folder, f"{len(traces)}.graph")
                    settings = report["point"].split(",") if report["point"] else []
                    words = [word for one in settings for word in ("--set", one)]
                    traces.append((SHARDLAB, "trace", path, "--out", graph, *words))
                    by_world[report["ranks"]].append(graph)
            with concurrent.futures.ThreadPoolExecutor() as pool:
                traced = pool.map(lambda command: output(*command), traces)
                for command, (_, text, errors) in zip(traces, traced):
                    self.assertTrue(command[4].exists(), f"{command}: {text} {errors}")
            lines = []
            for world, graphs in sorted(by_world.items()):
                code, text, errors = output(LAUNCHER, "-n", world, SHARDLAB, "replay", "--backend",
                                            BACKEND, "--check-collectives", *graphs)
                self.assertEqual(code, 0, f"{text} {errors}")
                self.assertEqual(len(text.splitlines()), len(graphs), text)
                lines += text.splitlines()
        bitwise = sum(line.endswith("bitwise") for line in lines)
        self.assertGreater(bitwise, 60)
        print(f"{len(lines)} graphs replayed, {bitwise} bitwise")

    def test_all_shipped_scenarios(self):
        by_world = collections.defaultdict(list)
        expected = {}
        for path in SCENARIOS:
            found = found_of(path)
            self.assertTrue(found, path)
            worlds = {report["ranks"] for report in found}
            self.assertEqual(len(worlds), 1, f"{path}: one job has one size")
            by_world[worlds.pop()].append(path)
            expected[path] = found
        events = 0
        for world, paths in sorted(by_world.items()):
            code, text, errors = output(
                LAUNCHER, "-n", world, SHARDLAB, "run", "--json", "--backend", BACKEND,
                "--check-collectives", *paths,
            )
            self.assertEqual(code, 0, errors)
            wanted = [report for path in paths for report in expected[path]]
            got = reports(text)
            self.assertEqual(len(got), len(wanted))
            for one, other in zip(wanted, got):
                self.assertEqual(other["backend"], BACKEND)
                self.check(comparable(one), comparable(other))
                events += len(one["events"])
        print(f"{len(SCENARIOS)} scenarios, {events} events alike, worlds {sorted(by_world)}")


if __name__ == "__main__":
    SHARDLAB, BACKEND, LAUNCHER, *SCENARIOS = sys.argv[1:]
    # No other test runs meanwhile.
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(found_of, SCENARIOS))
    unittest.main(argv=sys.argv[:1])
