#!/usr/bin/env python3
"""A process whose environment cannot be right says so at once, and all that join hear it: nobody
waits for the whole time of joining.

usage: environment_test.py SHARDLAB NCCL_DOUBLE
"""

import concurrent.futures
import pathlib
import re
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.dont_write_bytecode = True

import ranks  # noqa: E402
from faults_test import Process  # noqa: E402
from job import ENVIRONMENT, NEIGHBOURS  # noqa: E402

SHARDLAB, DOUBLE = "", ""
JOIN = 60 + NEIGHBOURS  # seconds; nobody waits as long
SCENARIO = """
mesh = { dp = %d }
[inputs]
x = "f32[7@dp, 3]"
[program]
code = '''
y = x.redistribute(dp=R)
'''
"""


class Environment(unittest.TestCase):
    def job(self, size, odd, **changes):
        """(what all ranks have written, seconds) with these variables of rank `odd`; None: unset"""
        port = ranks.free_port()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "small.toml")
            path.write_text(SCENARIO % size, encoding="utf-8")
            began = time.monotonic()
            processes = []
            for rank in range(size):
                told = ranks.variables("torchrun", rank, size, port)
                told = {key: str(value) for key, value in told.items()
                        if not key.startswith("TORCHELASTIC")}
                told["MASTER_PORT"] = str(port)
                told.update(changes if rank == odd else {})
                environment = ENVIRONMENT | {
                    "SHARDLAB_JOIN_SECONDS": str(JOIN), "SHARDLAB_NCCL_LIBRARY": DOUBLE,
                    "SHARDLAB_NCCL_DOUBLE_DEVICES": "8",
                } | told
                environment = {key: value for key, value in environment.items()
                               if value is not None}
                processes.append(Process([SHARDLAB, "run", "--backend", "nccl", path],
                                         environment, folder, f"rank_{rank}"))
            codes = [process.process.wait(2 * JOIN) for process in processes]
            text = "".join(process.text() for process in processes)
            return codes, text, time.monotonic() - began

    def refused(self, size, odd, expected, told="", **changes):
        codes, text, seconds = self.job(size, odd, **changes)
        about = f"{size} ranks, rank {odd}: {changes}\n{text}"
        self.assertEqual(set(codes), {2}, about)
        self.assertRegex(text, f"error: .*{re.escape(expected)}", about)
        self.assertIn(told, text, about)
        self.assertLess(seconds, 10 + NEIGHBOURS, about)

    def test_the_others_hear_it(self):
        jobs = []
        for size, odd in ((3, 1), (5, 4)):
            what = f"rank {odd} cannot take part: "
            jobs += [
                (size, odd, f"rank {size} cannot take part: RANK is {size} and WORLD_SIZE is "
                            f"{size}", {"RANK": str(size)}),
                (size, odd, "a process cannot take part: RANK is x", {"RANK": "x"}),
                (size, odd, what + "WORLD_SIZE is not set", {"WORLD_SIZE": None}),
                (size, odd, what + "MASTER_ADDR is not set", {"MASTER_ADDR": None}),
                (size, odd, what + "backend nccl finds no NCCL",
                 {"SHARDLAB_NCCL_LIBRARY": "/none.so"}),
                (size, odd, f"rank {odd} counts 7 processes, rank 0 counts {size}",
                 {"WORLD_SIZE": "7"}),
                (size, odd, "two processes are rank 0", {"RANK": "0"}),
                (size, odd, "two processes are rank 2", {"RANK": "2"}),
            ]
        jobs += [
            (3, 0, "rank 0 cannot take part: WORLD_SIZE is not set", {"WORLD_SIZE": None}),
            (3, 0, "backend nccl finds no NCCL", {"SHARDLAB_NCCL_LIBRARY": "/none.so"}),
            (4, 0, "counts 4 processes, rank 0 counts 2", {"WORLD_SIZE": "2"}),
        ]
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for done in [pool.submit(self.refused, size, odd, expected, **changes)
                         for size, odd, expected, changes in jobs]:
                done.result()

    def test_a_rank_with_other_devices_is_told_with_both_counts(self):
        for size, odd in ((2, 0), (2, 1), (3, 0), (3, 1), (3, 2)):
            other = 0 if odd else 1
            counts = {odd: 0, other: 8}
            first, second = sorted(counts)
            self.refused(size, odd, f"rank {odd} cannot take part: "
                         f"cudaGetDeviceCount on rank {odd}: no CUDA-capable device",
                         told=f"rank {first} sees {counts[first]} on its host, "
                              f"rank {second} sees {counts[second]}",
                         SHARDLAB_NCCL_DOUBLE_DEVICES="0")
        self.refused(3, 2, "rank 2 cannot take part: rank 2 wants device 2 of 1",
                     told="rank 0 sees 8 on its host, rank 2 sees 1",
                     SHARDLAB_NCCL_DOUBLE_DEVICES="1", SHARDLAB_DEVICE_ORDINAL="2")

    def test_a_sound_environment_joins(self):
        codes, text, _ = self.job(3, 1)
        self.assertEqual(set(codes), {0}, text)
        self.assertIn("verified", text)


if __name__ == "__main__":
    SHARDLAB, DOUBLE = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
