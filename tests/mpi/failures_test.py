#!/usr/bin/env python3
"""A process that fails or is killed is named by the others, in the words of backend threads.

usage: failures_test.py SHARDLAB MPIRUN KILLED CASES
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from job import ENVIRONMENT, NEIGHBOURS, TIMEOUT, output

SHARDLAB, MPIRUN, KILLED, CASES = "", "", "", pathlib.Path()
SECONDS = 2  # until survivors name the culprit


def without_setting(text):
    """A report without the line that names backend and scheduler, sums over processes, the verdict
    on calls and the commands that look for the mistake, which exist in simulation only."""
    text = re.sub(r"^the first wrong line: .*\n\n", "", text, flags=re.MULTILINE)
    lines = re.sub(r"^calls .*\n( +.*\n)*", "", text, flags=re.MULTILINE).splitlines()
    return [line for line in lines if " backend, " not in line and not line.startswith("memory:")
            and not line.startswith("local kernels:") and not line.startswith("again:")]

LONG = """
[mesh]
x = 4
[inputs]
a = "f32[5@x]"
[program]
code = '''
for i in range(1000000):
    b = (a + 1).redistribute(x=R)
'''
"""


def process_of_rank(rank, argument):
    """The process of a job that has computed for a second: its run has begun."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if argument.encode() not in (process / "cmdline").read_bytes().split(b"\0"):
                    continue
                if f"OMPI_COMM_WORLD_RANK={rank}".encode() not in (
                        process / "environ").read_bytes().split(b"\0"):
                    continue
                fields = (process / "stat").read_text().rpartition(")")[2].split()
                if int(fields[11]) > os.sysconf("SC_CLK_TCK"):
                    return int(process.name)
            except OSError:
                continue
        time.sleep(0.05)
    raise TimeoutError(f"rank {rank} does not compute")


class Failures(unittest.TestCase):
    maxDiff = 4000

    @classmethod
    def setUpClass(cls):
        # MPICH's launcher kills the others of a killed rank.
        cls.hydra = "HYDRA" in output(MPIRUN, "--version")[1]

    def job(self, ranks, *words):
        return output(MPIRUN, "-n", ranks, SHARDLAB, *words, "--backend", "mpi")

    def job_of_two(self, first, second):
        """Rank 0 runs the scenario of the first (program, scenario), rank 1 that of the second."""
        words = []
        for program, scenario in (first, second):
            words += [":"] if words else []
            words += ["-n", "1", program, "run", scenario, "--backend", "mpi"]
        return output(MPIRUN, *words)

    def same_as_threads(self, path, ranks):
        code, text, errors = output(SHARDLAB, "run", path)
        job_code, job_text, job_errors = self.job(ranks, "run", path, "--check-collectives")
        self.assertEqual(job_code, code, job_errors)
        self.assertEqual(without_setting(job_text), without_setting(text))
        # The launcher adds words of its own.
        self.assertIn(errors.strip(), job_errors)
        self.assertEqual(job_errors.count("error: "), errors.count("error: "), job_errors)

    def test_an_exception_in_one_rank(self):
        self.same_as_threads(CASES / "run_one_rank_fails.toml", 2)

    def test_a_mismatch(self):
        self.same_as_threads(CASES / "run_mismatch.toml", 2)

    def test_a_deadlock(self):
        self.same_as_threads(CASES / "run_deadlock.toml", 2)

    def test_without_comparing_a_rank_that_has_ended_is_missed_at_once(self):
        code, _, errors = self.job(2, "run", CASES / "run_deadlock.toml", "--no-check-collectives")
        self.assertEqual(code, 1)
        self.assertIn("error: deadlock: no rank can advance, rank 1 missing", errors)
        self.assertIn("rank 1: ended", errors)

    def test_without_comparing_a_message_of_another_length_says_where(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "sizes.toml")
            text = (CASES / "run_mismatch.toml").read_text(encoding="utf-8")
            text = text.replace("all_gather(b.to_local(), 0", 'all_reduce(a.to_local(), "sum"')
            path.write_text(text, encoding="utf-8")
            code, _, errors = self.job(2, "run", path, "--no-check-collectives")
        self.assertEqual(code, 1)
        self.assertRegex(errors, r"error: .*sizes differ in all_\w+ on group x, call 0: rank \d")
        self.assertNotRegex(errors, "Segmentation fault|ERRORS_ARE_FATAL")

    def test_the_line_that_runs_a_failure_again_leaves_out_comparing_too(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "failing.toml")
            path.write_text("[mesh]\nx = 2\n[program]\ncode = 'assert rank == 2'\n",
                            encoding="utf-8")
            _, text, errors = self.job(2, "test", path, "--no-check-collectives")
        self.assertIn(f"mpirun -n 2 shardlab run {path} --backend mpi --no-check-collectives",
                      text, errors)

    def test_two_programs_in_one_job_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            runs = []
            for times in (20, 30):
                path = pathlib.Path(folder, f"{times}.toml")
                path.write_text(LONG.replace("4", "2").replace("1000000", str(times)),
                                encoding="utf-8")
                runs.append((SHARDLAB, path))
            code, _, errors = self.job_of_two(*runs)
        self.assertEqual(code, 2, errors)
        told = (r"error: rank 1 runs something else than rank 0: scenario 30\.toml \(.*, "
                r"and not scenario 20\.toml \(")
        self.assertEqual(len(re.findall(told, errors)), 1, errors)

    def test_another_build_of_the_program_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "long.toml")
            path.write_text(LONG.replace("4", "2"), encoding="utf-8")
            other = pathlib.Path(folder, "shardlab")
            shutil.copy(SHARDLAB, other)
            with other.open("ab") as file:
                file.write(b"built again")
            for module in pathlib.Path(SHARDLAB).resolve().parent.glob("libshardlab_*.so"):
                pathlib.Path(folder, module.name).symlink_to(module)
            for programs in ((SHARDLAB, other), (other, SHARDLAB)):
                code, _, errors = self.job_of_two(*((program, path) for program in programs))
                self.assertEqual(code, 2, errors)
                sizes = [pathlib.Path(program).stat().st_size for program in programs]
                told = (f"error: rank 1 runs something else than rank 0: program shardlab "
                        rf"\({sizes[1]} bytes, .*\), and not program shardlab \({sizes[0]} bytes")
                self.assertEqual(len(re.findall(told, errors)), 1, errors)

    def test_a_stopped_rank_of_a_scenario_is_named_and_the_others_end(self):
        for victim in (2, 0):
            seconds, errors = self.stopped(victim)
            self.assertLess(seconds, 1 + 5 + NEIGHBOURS, errors)
            self.assertRegex(errors, rf"error: timeout: rank \d waited .* for rank {victim}")
            self.assertIn(f"rank {victim}: its process does not answer", errors)

    def stopped(self, victim):
        """(seconds until the job had ended, its complaints)"""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "long.toml")
            path.write_text(LONG, encoding="utf-8")
            job = subprocess.Popen([MPIRUN, "-n", "4", SHARDLAB, "run", "--backend", "mpi", path],
                                   env=ENVIRONMENT | {"SHARDLAB_PATIENCE": "1"},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, encoding="utf-8")
            os.kill(process_of_rank(victim, str(path)), signal.SIGSTOP)
            began = time.monotonic()
            errors = job.communicate(timeout=TIMEOUT)[1]
        self.assertNotEqual(job.returncode, 0)
        return time.monotonic() - began, errors

    def test_a_job_of_another_size_says_what_to_type(self):
        code, text, errors = self.job(3, "run", CASES / "run_deadlock.toml")
        self.assertEqual(code, 2)
        self.assertEqual(text, "")
        self.assertEqual(errors.count("error: a world of 2 ranks in a job of 3 processes"), 1)
        self.assertIn("fix         mpirun -n 2 shardlab", errors)

    def test_a_file_that_cannot_run_is_said_once(self):
        code, text, errors = self.job(2, "run", CASES / "no_such.toml")
        self.assertEqual(code, 2)
        self.assertEqual(text, "")
        self.assertEqual(errors.count("error: "), 1, errors)

    def test_a_scenario_of_another_size_is_skipped_with_the_reason(self):
        with tempfile.TemporaryDirectory() as folder:
            for ranks in (2, 3):
                text = f"[mesh]\nx = {ranks}\n[program]\ncode = 'barrier()'\n"
                pathlib.Path(folder, f"of_{ranks}.toml").write_text(text, encoding="utf-8")
            code, text, errors = self.job(2, "test", folder)
        self.assertEqual(code, 0, errors)
        self.assertIn(f"skip   {folder}/of_3.toml  needs 3 ranks, and the job has 2 processes\n",
                      text)
        self.assertIn("1 passed, 0 failed, 1 skipped\n", text)

    # mpirun ends the others soon after: their reports, of 200,000 lines here, are cut off.
    def test_a_killed_rank_is_named_before_a_long_report(self):
        if self.hydra:
            self.skipTest("MPICH's launcher kills the others before they say who it was")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "long.toml")
            path.write_text(LONG, encoding="utf-8")
            job = subprocess.Popen([MPIRUN, "-n", "4", SHARDLAB, "run", "--backend", "mpi", path],
                                   env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   encoding="utf-8")
            os.kill(process_of_rank(2, str(path)), signal.SIGKILL)
            errors = job.communicate(timeout=TIMEOUT)[1]
        self.assertNotEqual(job.returncode, 0)
        self.assertIn("error: rank 2 failed: its process ended in the middle of the run", errors)

    def killed(self, victim):
        patient = ["-disable-auto-cleanup"] if self.hydra else []
        job = subprocess.Popen(
            [MPIRUN, *patient, "-n", "4", KILLED, str(victim)], env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
        )
        named = f"rank {victim} failed: its process ended in the middle of the run"
        died, told = None, []
        for line in job.stdout:
            when, _, said = line.strip().partition(" ")
            if said == "killed":
                died = int(when)
            elif named in said:
                told.append(int(when))
        errors = job.stderr.read()
        job.stderr.close()
        job.stdout.close()
        self.assertNotEqual(job.wait(TIMEOUT), 0)
        self.assertIsNotNone(died, errors)
        return [1e-9 * (moment - died) for moment in told]

    def test_survivors_name_a_killed_rank_in_time(self):
        for victim in (2, 0):
            told = self.killed(victim)
            print(f"rank {victim} killed; survivors after "
                  + ", ".join(f"{seconds * 1000:.0f} ms" for seconds in told))
            self.assertGreaterEqual(len(told), 1)
            self.assertLess(max(told), SECONDS + NEIGHBOURS)


if __name__ == "__main__":
    SHARDLAB, MPIRUN, KILLED, CASES = sys.argv[1:]
    CASES = pathlib.Path(CASES)
    unittest.main(argv=sys.argv[:1])
