#!/usr/bin/env python3
"""A rank that the network cuts off is named by all others, and names them.

usage: cut_network_test.py FAULTY PROGRAM NCCL_DOUBLE

Each rank is in a network of its own (ip netns), joined by a bridge. The double of NCCL moves data
in shared memory, so that only the processes' own messages are cut: calls are compared no more.
Skipped without the right to make networks.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.dont_write_bytecode = True

import ranks  # noqa: E402
from job import ENVIRONMENT, NEIGHBOURS  # noqa: E402

RANKS = 4
PATIENCE = 2
BEGINS = 1.5  # seconds until all compute
FAULTY, PROGRAM, DOUBLE = "", "", ""
NAME = f"sl{os.getpid() % 100000}"  # of networks; a device's name has 15 letters
LONG = """
mesh = { dp = 4 }
[inputs]
x = "f32[8@dp]"
[program]
code = '''
for i in range(1000000):
    y = full_tensor(x)
'''
"""


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, encoding="utf-8", check=True)


def network_of(rank):
    return f"{NAME}r{rank}"


def make_networks():
    ip("netns", "add", f"{NAME}b")
    ip("-n", f"{NAME}b", "link", "add", "bridge", "type", "bridge")
    ip("-n", f"{NAME}b", "link", "set", "bridge", "up")
    for rank in range(RANKS):
        here = network_of(rank)
        ip("netns", "add", here)
        ip("-n", here, "link", "add", "eth", "type", "veth", "peer", "name", f"port{rank}",
           "netns", f"{NAME}b")
        ip("-n", f"{NAME}b", "link", "set", f"port{rank}", "master", "bridge", "up")
        ip("-n", here, "addr", "add", f"10.77.0.{rank + 1}/24", "dev", "eth")
        ip("-n", here, "link", "set", "lo", "up")
        ip("-n", here, "link", "set", "eth", "up")


def remove_networks():
    for name in [network_of(rank) for rank in range(RANKS)] + [f"{NAME}b"]:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


class CutNetwork(unittest.TestCase):
    def job(self, command, culprit, after):
        """The ranks' exit codes, texts and seconds after the cut."""
        for rank in range(RANKS):
            ip("-n", f"{NAME}b", "link", "set", f"port{rank}", "up")
        port = ranks.free_port()
        with tempfile.TemporaryDirectory() as folder:
            processes = []
            if after == 0:
                ip("-n", f"{NAME}b", "link", "set", f"port{culprit}", "down")
            for rank in range(RANKS):
                told = ranks.variables("torchrun", rank, RANKS, port, address="10.77.0.1")
                environment = ENVIRONMENT | {
                    "SHARDLAB_NCCL_LIBRARY": DOUBLE, "SHARDLAB_NCCL_DOUBLE_DEADLINE_MS": "50000",
                    "SHARDLAB_PATIENCE": str(PATIENCE), "SHARDLAB_JOIN_SECONDS": "4",
                    "SHARDLAB_HOST": f"node{rank}", "SHARDLAB_ROUNDS": "1000000",
                } | {key: str(value) for key, value in told.items()}
                with open(pathlib.Path(folder, str(rank)), "w", encoding="utf-8") as output:
                    processes.append(subprocess.Popen(
                        ["ip", "netns", "exec", network_of(rank), *command], env=environment,
                        stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT))
            try:
                if after > 0:
                    time.sleep(after)
                    ip("-n", f"{NAME}b", "link", "set", f"port{culprit}", "down")
                began = time.monotonic()
                codes = [process.wait(PATIENCE + 20 + NEIGHBOURS) for process in processes]
                seconds = time.monotonic() - began
            finally:
                for process in processes:
                    process.kill()
                    process.wait()
            texts = [pathlib.Path(folder, str(rank)).read_text(encoding="utf-8")
                     for rank in range(RANKS)]
        return codes, texts, seconds

    def cut(self, command):
        for after in (BEGINS, 0):
            for culprit in range(RANKS):
                with self.subTest(culprit=culprit, after=after):
                    codes, texts, seconds = self.job(command, culprit, after)
                    self.assertEqual(codes, [4 if after else 2] * RANKS, texts)
                    self.assertLess(seconds, PATIENCE + 12 + NEIGHBOURS, texts)
                    for rank, text in enumerate(texts):
                        self.assertEqual(text.count("error: "), 1, texts)
                        first = text[text.index("error: "):].splitlines()[0]
                        if rank == culprit:
                            self.assertRegex(first, r"rank \d|ranks \d", texts)
                        else:
                            self.assertRegex(first, rf"ranks? {culprit}\b", texts)

    def test_of_the_command_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "long.toml")
            path.write_text(LONG, encoding="utf-8")
            self.cut([FAULTY, "run", "--backend", "nccl", str(path)])

    def test_of_a_program(self):
        self.cut([PROGRAM, "--backend", "nccl"])


def main():
    global FAULTY, PROGRAM, DOUBLE
    FAULTY, PROGRAM, DOUBLE = sys.argv[1:4]
    if shutil.which("ip") is None:
        print("skipped: no ip")
        return 77
    try:
        make_networks()
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"skipped: no networks of its own: {getattr(error, 'stderr', error)}")
        remove_networks()
        return 77
    try:
        return 0 if unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful() else 1
    finally:
        remove_networks()


if __name__ == "__main__":
    sys.exit(main())
