#!/usr/bin/env python3
"""A process that is lost never becomes a verdict on values, at whatever place it is lost.

usage: faults_test.py MPIRUN FAULTY PROGRAM NCCL_DOUBLE [--sample N] [--table FILE] [--only TEXT]

FAULTY is `shardlab`, PROGRAM one in C++, both with the faults of faults.cpp. Each job is a line of
the table: launcher, program, rank, stage, fault. --sample takes N jobs, spread over all of them.
The launcher `torchrun` is the program of that name if it is found, else this file's own agent,
which looks for the root cause as torchrun does.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.dont_write_bytecode = True

import ranks  # noqa: E402
from job import ENVIRONMENT, NEIGHBOURS  # noqa: E402

RANKS = 4
PATIENCE = 2
JOIN = 4
HANGS = 60  # seconds; nothing here takes so long
MPIRUN, FAULTY, PROGRAM, DOUBLE = "", "", "", ""
STAGES = ("join", "begin", "id", "start", "run", "end", "gather", "sent", "judge", "share", "leave")
FAULTS = ("kill", "stop", "exit", "memory", "throw")
BODIES = ("throw", "throw-int", "segfault", "sleep")
CRASH = re.compile(r"terminate called|AddressSanitizer|defect of shardlab|double free|malloc\(\)")

SCENARIO = """
mesh = { dp = 4 }
[inputs]
x = "f32[512@dp, 512]"
w = "f32[512, 512]"
[program]
code = '''
for i in range(4):
    y = matmul(x, w)
    x = y * 0.01
    z = full_tensor(x)
'''
"""


@dataclasses.dataclass(frozen=True)
class Job:
    launcher: str  # mpi, nccl, torchrun
    program: str  # run: of the command line; main: run_main in C++
    rank: int
    stage: str
    fault: str
    then: str = ""  # of rank 0, which would speak

    def __str__(self):
        words = f"{self.launcher} {self.program} rank {self.rank} {self.stage} {self.fault}"
        return f"{words}, rank 0 {self.then}" if self.then else words


@dataclasses.dataclass
class Outcome:
    codes: dict = dataclasses.field(default_factory=dict)  # by rank, or of "launcher"
    text: str = ""
    seconds: float = 0  # from the fault, or from the start, until the survivors had ended
    hangs: bool = False
    left: list = dataclasses.field(default_factory=list)  # processes
    root: object = None  # torchrun's cause: a rank


def all_jobs():
    jobs = []
    for launcher in ("mpi", "nccl", "torchrun"):
        for rank in range(RANKS):
            for stage in STAGES:
                # Over NCCL nobody waits for others at the end of a process.
                if stage in (("id", "start") if launcher == "mpi" else ("leave",)):
                    continue
                for fault in FAULTS:
                    # torchrun waits for a process that nobody else waits for. Of one that stops
                    # as it has sent its values they may have arrived.
                    late = stage == "share" or (rank != 0 and stage in ("sent", "judge"))
                    if launcher == "torchrun" and fault == "stop" and late:
                        continue
                    if fault == "memory" and stage not in ("end", "gather", "sent", "judge"):
                        continue
                    if fault == "throw" and stage == "leave":  # at the end of the process
                        continue
                    jobs.append(Job(launcher, "run", rank, stage, fault))
            for stage in ("join", "begin", "id", "start", "run", "end"):
                if stage in ("id", "start") and launcher == "mpi":
                    continue
                for fault in ("kill", "stop", "exit", "throw"):
                    jobs.append(Job(launcher, "main", rank, stage, fault))
            jobs += [Job(launcher, "main", rank, "body", fault) for fault in BODIES]
        # Who is to speak of the first fault is lost before that.
        for fault in ("kill", "stop"):
            jobs.append(Job(launcher, "run", 2, "run", fault, f"gather {fault}"))
            jobs.append(Job(launcher, "main", 2, "run", fault, f"tell {fault}"))
    jobs += [Job("mpi", "main", rank, "after", "sleep") for rank in range(RANKS)]
    return jobs


class Process:
    """One process of a job; a launcher, or a rank."""

    def __init__(self, command, environment, folder, name):
        self.path = pathlib.Path(folder, f"{name}.txt")
        with open(self.path, "w", encoding="utf-8") as output:
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True)

    def text(self):
        return self.path.read_text(encoding="utf-8", errors="replace")


def processes_with(token):
    """(number, rank, state) of all processes that have this in their environment."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
            if token.encode() not in environment:
                continue
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            rank = [word.partition(b"=")[2] for word in environment
                    if word.startswith((b"RANK=", b"OMPI_COMM_WORLD_RANK="))]
            if state != "Z":
                found.append((int(entry.name), int(rank[0]) if rank else None, state))
        except OSError:
            continue
    return found


def command_of(job, folder):
    backend = ["--backend", "mpi" if job.launcher == "mpi" else "nccl"]
    if job.program == "main":
        return [PROGRAM, *backend]
    path = pathlib.Path(folder, "long.toml")
    path.write_text(SCENARIO, encoding="utf-8")
    return [FAULTY, "run", *backend, str(path)]


def root_cause(files, failures):
    """The rank that torchrun names: the earliest of its failures."""
    times = {}
    for rank, when in failures.items():
        times[rank] = when
        if files[rank].exists():
            said = json.loads(files[rank].read_text(encoding="utf-8"))["message"]
            times[rank] = int(said["extraInfo"]["timestamp"])
    return min(times, key=lambda rank: times[rank]) if times else None


def end_as_agent(processes, files, outcome, deadline):
    """As torchrun: the first failure ends all others."""
    failures, running = {}, dict(processes)
    while running and not failures and time.monotonic() < deadline:
        for rank in list(running):
            code = running[rank].process.poll()
            if code is None:
                continue
            running.pop(rank)
            outcome.codes[rank] = code
            if code != 0:
                failures[rank] = int(time.time())
        time.sleep(0.1)
    outcome.hangs = bool(running) and not failures
    for sent in (signal.SIGTERM, signal.SIGKILL):
        for process in running.values():
            if process.process.poll() is None:
                os.killpg(process.process.pid, sent)
        end = time.monotonic() + 2
        while time.monotonic() < end and any(p.process.poll() is None for p in running.values()):
            time.sleep(0.02)
    for rank, process in running.items():
        outcome.codes[rank] = process.process.wait()
        if outcome.codes[rank] != 0:
            failures[rank] = int(time.time())
    outcome.root = root_cause(files, failures)


def run_torchrun(torchrun, job, environment, folder, outcome):
    command = [torchrun, "--nproc-per-node", str(RANKS), "--no-python", "--master-port",
               str(ranks.free_port()), *command_of(job, folder)]
    process = Process(command, environment, folder, "launcher")
    try:
        outcome.codes["launcher"] = process.process.wait(HANGS + 40)
    except subprocess.TimeoutExpired:
        outcome.hangs = True
    outcome.text = process.text()
    found = re.search(r"Root Cause.*?rank +: (\d+)", outcome.text, re.DOTALL)
    outcome.root = int(found[1]) if found else None


def stays(job, rank):
    """Whether the fault leaves the rank's process behind."""
    hit = rank == job.rank or (job.then and rank == 0)
    return hit and job.fault in ("stop", "sleep")


def run_job(job):
    token = f"SHARDLAB_TEST_JOB={uuid.uuid4()}"
    environment = ENVIRONMENT | {
        "SHARDLAB_PATIENCE": str(PATIENCE), "SHARDLAB_JOIN_SECONDS": str(JOIN),
        "SHARDLAB_NCCL_LIBRARY": DOUBLE, "SHARDLAB_NCCL_DOUBLE_DEADLINE_MS": "50000",
        "SHARDLAB_FAULT": f"{job.rank} {job.stage} {job.fault}" +
                          (f", 0 {job.then}" if job.then else ""),
        "TSAN_OPTIONS": "exitcode=66"}
    environment.update([token.split("=")])
    outcome = Outcome()
    begin = time.monotonic()
    torchrun = os.environ.get("SHARDLAB_TORCHRUN") or shutil.which("torchrun")
    with tempfile.TemporaryDirectory() as folder:
        if job.launcher == "mpi":
            process = Process([MPIRUN, "-n", str(RANKS), *command_of(job, folder)], environment,
                              folder, "launcher")
            try:
                outcome.codes["launcher"] = process.process.wait(HANGS)
            except subprocess.TimeoutExpired:
                outcome.hangs = True
            outcome.text = process.text()
        elif job.launcher == "torchrun" and torchrun:
            run_torchrun(torchrun, job, environment, folder, outcome)
        else:
            port = ranks.free_port()
            processes, files = {}, {}
            for rank in range(RANKS):
                told = {k: str(v) for k, v in
                        ranks.variables("torchrun", rank, RANKS, port).items()}
                files[rank] = pathlib.Path(folder, f"error_{rank}.json")
                told["TORCHELASTIC_ERROR_FILE"] = str(files[rank])
                processes[rank] = Process(command_of(job, folder), environment | told, folder,
                                          f"rank_{rank}")
            if job.launcher == "torchrun":
                end_as_agent(processes, files, outcome, begin + HANGS)
            else:
                for rank, process in processes.items():
                    if stays(job, rank):
                        continue
                    try:
                        outcome.codes[rank] = process.process.wait(
                            max(0.1, begin + HANGS - time.monotonic()))
                    except subprocess.TimeoutExpired:
                        outcome.hangs = True
            outcome.text = "".join(process.text() for process in processes.values())
        outcome.seconds = time.monotonic() - begin
        time.sleep(0.2)
        for number, rank, _ in processes_with(token):
            if job.launcher != "nccl" or not stays(job, rank):
                outcome.left.append((number, rank))
            try:
                os.kill(number, signal.SIGKILL)
            except OSError:
                pass
        for process in list(locals().get("processes", {}).values()):
            process.process.wait()
        if job.launcher == "mpi" and outcome.hangs:
            process.process.kill()
            process.process.wait()
    return outcome


def is_fine(job):
    """Whether all values had arrived, so that the job's result stands."""
    return job.stage in ("share", "leave", "after") or (job.stage == "judge" and job.rank != 0)


def expected_codes(job):
    """Of the ranks that survive."""
    if is_fine(job):
        return {0}
    if job.stage == "sent" and job.rank != 0:  # on its way, or not
        return {0, 2}
    if job.stage == "id" and job.fault != "throw":
        return {2, 4}  # some hear of it while they still begin
    if job.program == "main":
        return {2} if job.stage in ("join", "begin") else {4}
    if job.stage in ("id", "start", "run", "end"):
        if job.fault != "throw" or job.stage == "end":
            return {4}
        # The others are inside of NCCL, which they leave when rank 0 has ended.
        return {1, 4} if (job.rank, job.stage) == (0, "start") else {1}
    return {2}


def told(job, text):
    """Whether a rank that is lost is named as the cause."""
    lost = rf"rank {'[' + str(job.rank) + '0]' if job.then else job.rank}"
    named = [rf"{lost} failed", rf"for {lost}\b", rf"{lost}, which judges", rf"{lost} was lost",
             rf"{lost} has not come", rf"{lost} did not come", rf"of {lost} is gone",
             rf"{lost} has not ended", rf"{lost} \(PID \d+\) .*signal", rf"{lost} with PID",
             rf"Process name: \[\[\d+,1\],{job.rank}\]",
             rf"{lost} \(.*\) (left before|does not answer)", rf"did not reach {lost}\b",
             rf"{lost} has no memory", rf"{lost} cannot go on"]
    # In a body that throws the rank's own error is everybody's.
    if job.stage == "body" and job.fault == "throw":
        named.append("the data loader failed")
    if job.stage == "body" and job.fault == "throw-int":
        named.append("an exception of unknown type")
    return any(re.search(name, text) for name in named)


def complaints(job, outcome):
    wrong = []
    text = outcome.text
    fault_done = f"fault: rank {job.rank} " in text or job.stage in ("body", "after")
    if not fault_done:
        wrong.append("the fault was not reached")
    if re.search(r"\d wrong|^wrong ", text, re.MULTILINE):
        wrong.append("a verdict on values")
    if CRASH.search(text):
        wrong.append("a crash: " + CRASH.search(text)[0])
    if outcome.hangs:
        wrong.append("hangs")
    if outcome.left:
        wrong.append(f"left behind: {outcome.left}")
    most = JOIN + 3 * PATIENCE + 8 + NEIGHBOURS + (36 if "launcher" in outcome.codes and
                                                   job.launcher == "torchrun" else 0)
    if outcome.seconds > most:
        wrong.append(f"{outcome.seconds:.1f} s")
    fine = is_fine(job) or (job.stage == "sent" and "verified" in text)
    survivors = {rank: code for rank, code in outcome.codes.items()
                 if rank not in (job.rank, "launcher", 0 if job.then else None)}
    if job.fault == "memory":
        # It may have had enough.
        enough = "verified" in text and all(code == 0 for code in survivors.values())
        said = told(job, text) or re.search("out of memory|[Cc]annot allocate", text)
        if not enough and not fine and not said:
            wrong.append("nobody says who")
        return wrong
    if job.launcher == "nccl":
        codes = expected_codes(job)
        if job.stage == "body" and job.fault in ("throw", "throw-int"):
            codes = {4}
        bad = {rank: code for rank, code in survivors.items() if code not in codes}
        if bad:
            wrong.append(f"exit codes {bad}, not {sorted(codes)}")
    elif job.launcher == "mpi":
        code = outcome.codes.get("launcher")
        if not fine and code == 0:
            wrong.append("exit code 0")
    # It ends the others at once, and says who it was.
    culprits = {job.rank, 0} if job.then else {job.rank}
    by_torchrun = job.launcher == "torchrun" and outcome.root in culprits
    if not fine and not by_torchrun and not told(job, text):
        wrong.append("nobody says who")
    if job.stage == "after" and not told(job, text):
        wrong.append("nobody says who stays")
    stories = [line for line in text.splitlines() if line.startswith("error: ")
               and not told(job, line)]
    if not fine and stories:
        wrong.append(f"another story: {stories}")
    if job.launcher == "torchrun" and not fine and not by_torchrun:
        if job.stage != "join":  # one that has not joined has no place
            wrong.append(f"torchrun's root cause is rank {outcome.root}")
    return wrong


def sampled(jobs, count):
    """So many, of all launchers, stages, ranks and faults; two faults at once in each sample."""
    twice = [job for job in jobs if job.then and (job.launcher, job.program) == ("nccl", "main")]
    once = [job for job in jobs if job not in twice]
    step = len(once) / (count - len(twice))
    return [once[int(i * step)] for i in range(count - len(twice))] + twice


def main():
    global MPIRUN, FAULTY, PROGRAM, DOUBLE
    parser = argparse.ArgumentParser()
    parser.add_argument("mpirun")
    parser.add_argument("faulty")
    parser.add_argument("program")
    parser.add_argument("double")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--table")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=3)
    given = parser.parse_args()
    MPIRUN, FAULTY, PROGRAM, DOUBLE = given.mpirun, given.faulty, given.program, given.double
    jobs = [job for job in all_jobs() if re.search(given.only, str(job))]
    if MPIRUN == "none":
        jobs = [job for job in jobs if job.launcher != "mpi"]
    if given.sample and given.sample < len(jobs):
        jobs = sampled(jobs, given.sample)
    failed = 0
    lines = []
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        for job, outcome in zip(jobs, pool.map(run_job, jobs)):
            wrong = complaints(job, outcome)
            failed += bool(wrong)
            said = next((line for line in outcome.text.splitlines() if line.startswith(
                ("error:", "warning:"))), "")
            lines.append(f"{job}\t{outcome.seconds:.1f}\t{outcome.codes}\t{outcome.root}\t"
                         f"{'; '.join(wrong) or 'ok'}\t{said[:160]}")
            print(lines[-1], flush=True)
            if wrong and not given.table:
                print("    " + outcome.text.replace("\n", "\n    "), flush=True)
    print(f"{len(jobs)} jobs, {failed} wrong")
    if given.table:
        pathlib.Path(given.table).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 1 if failed or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())
