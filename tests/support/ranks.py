#!/usr/bin/env python3
"""Starts a command once per rank, as a launcher would.

    ranks.py [--style STYLE] -n RANKS [--hosts HOST,... [--through "COMMAND {host}"]]
             [--leave-out RANK] COMMAND...

Every process gets the variables of that launcher: torchrun, slurm, mpirun (Open MPI), mpich, cray,
or mpirun-in-slurm, which has a batch script's own variables, too; gpu-per-task is slurm with one
visible device each. With several hosts ranks begin on the first, which is this one, as many on
each, in this folder; they are started through ssh, or the command that --through names. Output
comes when all have ended, by rank: its output, and on stderr its complaints. The exit code is rank
0's, or 1 if another rank failed alone. --leave-out does not start that rank.
"""

import argparse
import os
import shlex
import socket
import subprocess
import sys
import tempfile

TIME_LIMIT_S = 240

GIVEN = set()


def free_port():
    """A port that no job of this test has been told."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port not in GIVEN:
            GIVEN.add(port)
            return port


def variables(style, rank, size, port, local=None, on_host=None, address="127.0.0.1"):
    """The launcher's variables for this rank."""
    local = rank if local is None else local
    on_host = on_host or size
    if style == "torchrun":
        # Its own store listens on MASTER_PORT, the program on the next one.
        return {
            "RANK": rank,
            "WORLD_SIZE": size,
            "LOCAL_RANK": local,
            "MASTER_ADDR": address,
            "MASTER_PORT": port - 1,
            "TORCHELASTIC_RUN_ID": f"test {port}",
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }
    slurm = {
        "SLURM_PROCID": rank,
        "SLURM_NTASKS": size,
        "SLURM_LOCALID": local,
        "SLURM_JOB_ID": port,
        "SLURM_STEP_ID": 0,
        "SLURM_STEP_NODELIST": "localhost",
        "MASTER_PORT": port,
    }
    if style == "slurm":
        return slurm
    if style == "gpu-per-task":
        return slurm | {"CUDA_VISIBLE_DEVICES": local}
    if style == "mpich":
        return {"PMI_RANK": rank, "PMI_SIZE": size, "MPI_LOCALRANKID": local,
                "MPI_LOCALNRANKS": on_host, "MASTER_PORT": port}
    if style == "cray":
        return {"PALS_RANKID": rank, "PMI_RANK": rank, "PMI_SIZE": size, "PALS_LOCAL_RANKID": local,
                "PMI_LOCAL_SIZE": on_host, "PALS_APID": port, "MASTER_PORT": port}
    mpirun = {
        "OMPI_COMM_WORLD_RANK": rank,
        "OMPI_COMM_WORLD_SIZE": size,
        "OMPI_COMM_WORLD_LOCAL_RANK": local,
        "OMPI_COMM_WORLD_LOCAL_SIZE": on_host,
        "PMIX_NAMESPACE": f"test.{port}",
        "MASTER_PORT": port,
    }
    if style == "mpirun":
        return mpirun
    return slurm | {"SLURM_PROCID": 0, "SLURM_LOCALID": 0} | mpirun


STYLES = ("torchrun", "slurm", "mpirun", "mpich", "cray", "mpirun-in-slurm", "gpu-per-task")
KNOWN = {name for style in STYLES for name in variables(style, 0, 1, 1)}


def started(arguments, rank, port):
    """(command, variables) of a rank."""
    hosts = arguments.hosts.split(",") if arguments.hosts else [None]
    on_host = arguments.ranks // len(hosts)
    host = hosts[rank // on_host]
    remote = arguments.through.startswith("ssh ")
    told = {name: str(value) for name, value in variables(
        arguments.style, rank, arguments.ranks, port, rank % on_host, on_host,
        hosts[0] if host and remote else "127.0.0.1").items()}
    if host is None:
        return arguments.command, told
    words = [f"{name}={value}" for name, value in told.items()]
    line = f"cd {shlex.quote(os.getcwd())} && exec env {shlex.join(words + arguments.command)}"
    through = arguments.through.format(host=host).split()
    return through + ([line] if remote else ["sh", "-c", line]), told


class Rank:
    """One process. Its output is written to files: full pipes without a reader would block it."""

    def __init__(self, arguments, rank, port):
        command, told = started(arguments, rank, port)
        kept = {name: value for name, value in os.environ.items() if name not in KNOWN}
        self.output = tempfile.TemporaryFile()
        self.complaints = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command,
            env=kept | told,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=self.complaints,
        )

    def finish(self):
        """(exit code, output, complaints); a process that never ends is killed."""
        late = b""
        try:
            self.process.wait(TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            late = f"killed after {TIME_LIMIT_S} s\n".encode()
        texts = []
        for file in (self.output, self.complaints):
            file.seek(0)
            texts.append(file.read())
            file.close()
        return self.process.returncode, texts[0], texts[1] + late


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--style", choices=STYLES, default="torchrun")
    parser.add_argument("--hosts", default="")
    parser.add_argument("--through", default="ssh {host}")
    parser.add_argument("-n", "--ranks", type=int, required=True)
    parser.add_argument("--leave-out", type=int, default=-1)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    port = free_port()
    processes = {
        rank: Rank(arguments, rank, port)
        for rank in range(arguments.ranks)
        if rank != arguments.leave_out
    }
    results = {rank: process.finish() for rank, process in processes.items()}
    code = 0
    for rank, (returned, output, complaints) in results.items():
        sys.stdout.buffer.write(output)
        if returned != 0:
            sys.stderr.buffer.write(f"rank {rank} ended with {returned}\n".encode())
        sys.stderr.buffer.write(complaints)
        if rank == 0:
            code = returned
        elif returned != 0:
            code = code or 1
    sys.stdout.flush()
    return code if 0 <= code <= 255 else 1


if __name__ == "__main__":
    sys.exit(main())
