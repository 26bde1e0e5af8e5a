#!/usr/bin/env python3
"""The shipped pipelines pass messages in the order in which PyTorch's schedules of that name do.

    schedules_test.py PROGRAM MODELS FACTS

MODELS is the folder of the shipped models, FACTS the file that tests/golden/pipelining/record.py
wrote. GPipe and 1F1B post all messages in PyTorch's order. PyTorch's interleaved schedule posts a
receive as soon as the other rank has sent, ours where it is needed: there the order is that of
sends.
"""

import json
import pathlib
import re
import sys
import unittest

import program

FILES = {
    "gpipe": "gpipe",
    "1f1b": "one_forward_one_backward",
    "interleaved": "interleaved_one_forward_one_backward",
}


class Schedules(program.Program):
    models, facts = pathlib.Path(), []

    def messages_of(self, fact):
        """By rank: "send F 1". If both passes send to one rank, gradients have tag 1."""
        words = ["--set", f"mesh.pp={fact['ranks']}", "--set", f"params.micro={fact['micro']}"]
        if fact["schedule"] == "interleaved":
            words += ["--set", f"params.chunks={fact['chunks']}"]
        path = self.models / f"{FILES[fact['schedule']]}.toml"
        text = self.shardlab("trace", path, "--ranks", "all", *words)[1]
        graphs = re.split(r"^graph of rank ", text, flags=re.M)[1:]
        self.assertEqual(len(graphs), fact["ranks"])
        by_rank = []
        for rank, graph in enumerate(graphs):
            found = re.findall(r"^  (send|recv)\(.*source=(\d+)(.*)\) ", graph, re.M)
            by_rank.append([f"{kind} {self.way(fact, kind, rank, int(peer), more)} {peer}"
                            for kind, peer, more in found])
        return by_rank

    @staticmethod
    def way(fact, kind, rank, peer, more):
        if fact["schedule"] == "interleaved":
            return "B" if "tag=1" in more else "F"
        return "F" if (peer > rank) == (kind == "send") else "B"

    def test_order_of_messages_by_rank(self):
        for fact in self.facts:
            wanted, got = fact["messages"], self.messages_of(fact)
            if fact["schedule"] == "interleaved":
                wanted, got = ([([one for one in rank if one.startswith("send")],
                                 sorted(one for one in rank if one.startswith("recv")))
                                for rank in ranks] for ranks in (wanted, got))
            with self.subTest({key: fact[key] for key in fact if key != "messages"}):
                self.assertEqual(got, wanted)
        self.assertGreater(len(self.facts), 20)


if __name__ == "__main__":
    Schedules.models = pathlib.Path(sys.argv[2]).resolve()
    with open(sys.argv[3], encoding="utf-8") as lines:
        Schedules.facts = [json.loads(line) for line in lines]
    unittest.main(argv=sys.argv[:1])
