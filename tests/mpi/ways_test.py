#!/usr/bin/env python3
"""A rank that falls silent, dies or calls something else never keeps the others waiting for longer
than their patience and five seconds (SHARDLAB_NEIGHBOURS=0 holds them to that on a free machine),
and no job crashes while it ends.

    ways_test.py MPIRUN PROGRAM [--jobs COUNT]      over MPI
    ways_test.py nccl PROGRAM [--jobs COUNT]        over NCCL or its double, ranks as of torchrun

PROGRAM is ways.cpp. --jobs runs each way of ending so often, and counts crashes.
"""

import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.dont_write_bytecode = True

import ranks  # noqa: E402
from job import ENVIRONMENT, NEIGHBOURS  # noqa: E402

LAUNCHER, PROGRAM = "", ""
RANKS, ODD = int(os.environ.get("SHARDLAB_RANKS", 4)), 1
PATIENCE = float(os.environ.get("SHARDLAB_PATIENCE", 1))
MOST = PATIENCE + 5 + NEIGHBOURS
# A rank that crashes ends at once, also under AddressSanitizer, which would print for a second.
ENDS = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0"}
HANGS = 60  # seconds; nothing here takes so long
CRASH = re.compile(r"Segmentation fault|signal (6|11)\b|terminate called|ERRORS_ARE_FATAL|Aborted")
LAST = r"all_reduce\(f32\[300\], sum\) on group world, call 0"
CALL = r"all_reduce\(f32\[300\], sum\) on group world, call 1"


@dataclasses.dataclass
class Said:
    """Output of one rank after the odd one began to differ."""

    text: str
    seconds: float


@dataclasses.dataclass
class Job:
    said: dict  # by rank
    codes: dict  # by rank, or of the launcher
    complaints: str
    seconds: float  # from the odd rank's difference until all other ranks had ended


class Start:
    """A job under way. Output is written to a file: the last lines are read when all have ended."""

    def __init__(self, *words):
        self.token = f"SHARDLAB_TEST_JOB={uuid.uuid4()}"
        self.output = tempfile.TemporaryFile(mode="w+", encoding="utf-8")
        self.complaints = tempfile.TemporaryFile(mode="w+", encoding="utf-8")
        if LAUNCHER == "nccl":
            port = ranks.free_port()
            self.processes = {
                rank: self.start([PROGRAM, *words, "--backend", "nccl"],
                                 ranks.variables("torchrun", rank, RANKS, port))
                for rank in range(RANKS)
            }
        else:
            command = [LAUNCHER, "-n", str(RANKS), PROGRAM, *words, "--backend", "mpi"]
            self.processes = {"launcher": self.start(command, {})}

    def start(self, command, variables):
        told = {name: str(value) for name, value in variables.items()}
        told["SHARDLAB_PATIENCE"] = str(PATIENCE)
        told["SHARDLAB_RANKS"] = str(RANKS)
        told.update([self.token.split("=")])
        return subprocess.Popen(command, env=ENVIRONMENT | ENDS | told, stdin=subprocess.DEVNULL,
                                stdout=self.output, stderr=self.complaints,
                                start_new_session=True)

    def ranks(self):
        """{rank: pid} of the running ones, whichever process started them."""
        found = {}
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                told = (process / "environ").read_bytes().decode(errors="replace").split("\0")
                rank = [one.split("=")[1] for one in told
                        if one.startswith(("OMPI_COMM_WORLD_RANK=", "RANK="))]
                if self.token in told and rank and (process / "cmdline").read_bytes():
                    found[int(rank[0])] = int(process.name)
        return found

    def await_the_odd(self):
        deadline = time.monotonic() + HANGS
        while "goes its way" not in self.said() and time.monotonic() < deadline:
            time.sleep(0.02)

    def said(self):
        self.output.seek(0)
        return self.output.read()

    def finish(self):
        """Waits for all ranks but the odd one to end by themselves."""
        deadline = time.monotonic() + HANGS
        codes = {}
        for rank, process in self.processes.items():
            if rank != ODD:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    codes[rank] = process.wait(max(0.1, deadline - time.monotonic()))
        while set(self.ranks()) - {ODD} and time.monotonic() < deadline:
            time.sleep(0.05)
        ended = time.monotonic()
        codes.update({rank: "hangs" for rank in set(self.ranks()) - {ODD}})
        for rank, process in self.processes.items():
            if rank == ODD:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    codes[rank] = process.wait(0.5)
        for pid in [*self.ranks().values(), *(one.pid for one in self.processes.values())]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.processes.values():
            process.wait()
        self.complaints.seek(0)
        job = self.job(self.said(), self.complaints.read(), codes, ended)
        self.output.close()
        self.complaints.close()
        return job

    @staticmethod
    def job(output, complaints, codes, ended):
        began, said = None, {}
        for rank, when, text in re.findall(r"^(\d) (\d+\.\d{3}) (.*(?:\n[^\d].*)*)", output, re.M):
            if "goes its way" in text:
                began = float(when)
            else:
                said[int(rank)] = Said(text, float(when))
        for one in said.values():
            one.seconds -= began or 0
        return Job(said, codes, complaints, ended - (began or 0))


def run(*words):
    return Start(*words).finish()


def run_all(jobs):
    """Several at once: they wait most of their time."""
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        return list(zip(jobs, pool.map(lambda words: run(*words), jobs)))


class Ways(unittest.TestCase):
    maxDiff = None

    def others_said(self, words, job, pattern):
        """Every rank but the odd one has said so, in time, and has ended."""
        text = f"{words}: {job}"
        for rank in range(RANKS):
            if rank == ODD:
                continue
            self.assertIn(rank, job.said, text)
            self.assertRegex(job.said[rank].text, pattern, text)
            self.assertLess(job.said[rank].seconds, MOST, text)
        self.assertLess(job.seconds, MOST, text)
        self.assertNotIn("hangs", job.codes.values(), text)
        self.assertNotIn(0, [code for rank, code in job.codes.items() if rank != ODD], text)

    def test_a_rank_that_falls_silent_is_named_with_what_it_does(self):
        jobs = [(way, place, checks) for way in ("stop", "sleep", "loop")
                for place in ("call", "end")
                for checks in ("--check-collectives", "--no-check-collectives")]
        for words, job in run_all(jobs):
            way, place, _ = words
            where = CALL if place == "call" else "the end of the run"
            does = "its process does not answer"
            if way != "stop":
                last = LAST if place == "call" else CALL
                does = rf"running for \d+\.\d s, after {last}"
            self.others_said(words, job, rf"timeout: rank \d waited [\d.]+ s for rank 1 in {where}")
            self.others_said(words, job, rf"rank 1: {does}")

    def test_a_rank_that_dies_or_fails_is_named(self):
        died = "rank 1 failed: its process ended in the middle of the run"
        jobs = [(way, place) for way in ("kill", "segv", "abort", "_exit", "exit", "throw")
                for place in ("call", "end")]
        for words, job in run_all(jobs):
            self.others_said(words, job, "mine" if words[0] == "throw" else died)

    def test_a_rank_that_calls_something_else_or_nothing(self):
        told = {
            "skip": "deadlock: .*rank 1 missing",
            "other": "mismatch: the ranks of group world entered different collectives",
            "dtype": "mismatch: the ranks of group world entered all_reduce with different dtypes",
            "size": "mismatch: the ranks of group world entered all_reduce with different shapes",
        }
        for words, job in run_all([(way, "call", "--check-collectives") for way in told]):
            self.others_said(words, job, told[words[0]])
            self.assertIsNone(CRASH.search(job.complaints), job)

    def test_a_rank_whose_message_never_comes(self):
        jobs = [(way, "message", "--check-collectives")
                for way in ("stop", "sleep", "kill", "skip", "other")]
        if LAUNCHER != "nccl":  # NCCL passes messages only if calls are compared
            jobs.append(("sleep", "message", "--no-check-collectives"))
        told = {
            "kill": "rank 1 failed: its process ended in the middle of the run",
            "skip": "deadlock: .* missing: rank 0 receives from rank 1, which has ended",
            "other": "deadlock: .*: rank 0 receives from rank 1 while rank 1 is in barrier",
        }
        for words, job in run_all(jobs):
            waited = r"timeout: rank \d waited [\d.]+ s for rank 1 in recv\(f32\[300\], from rank 1"
            self.others_said(words, job, told.get(words[0], waited))

    def test_without_checks_a_rank_that_has_ended_is_missed_at_once(self):
        (words, job), = run_all([("skip", "call", "--no-check-collectives")])
        self.others_said(words, job, "deadlock: .*rank 1 missing")
        self.others_said(words, job, "rank 1: ended")

    def test_on_devices(self):
        """The others wait, or launch more after a sum that never comes than a device takes."""
        if LAUNCHER != "nccl":
            self.skipTest("MPI has no queue of launches")
        jobs = [(way, place, "--device", "cuda", checks) for way in ("stop", "kill")
                for place in ("call", "launches")
                for checks in ("--check-collectives", "--no-check-collectives")]
        for words, job in run_all(jobs):
            self.others_said(words, job, "rank 1")

    def test_a_job_ends_without_its_launcher(self):
        jobs = [("sleep", "call"), ("stop", "end")]
        started = [Start(*words) for words in jobs]
        for start in started:
            start.await_the_odd()
            if "launcher" in start.processes:
                start.processes["launcher"].kill()
        for words, start in zip(jobs, started):
            job = start.finish()
            self.assertLess(job.seconds, MOST, f"{words}: {job}")
            self.assertNotIn("hangs", job.codes.values(), f"{words}: {job}")


def count_crashes(jobs):
    ways = [(way, "call", "--no-check-collectives")
            for way in ("size", "dtype", "other", "skip", "throw")]
    crashed = hung = 0
    for i in range(jobs):
        job = run(*ways[i % len(ways)])
        odd = [code for code in job.codes.values() if isinstance(code, int) and code < 0]
        crashed += bool(odd) or CRASH.search(job.complaints) is not None
        hung += "hangs" in job.codes.values()
    print(f"{jobs} jobs, {crashed} crashed while ending, {hung} hung")
    return 1 if crashed or hung else 0


if __name__ == "__main__":
    LAUNCHER, PROGRAM, *rest = sys.argv[1:]
    if rest[:1] == ["--jobs"]:
        sys.exit(count_crashes(int(rest[1])))
    unittest.main(argv=sys.argv[:1] + rest)
