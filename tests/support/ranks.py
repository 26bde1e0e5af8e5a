#!/usr/bin/env python3
"""Starts a command once per rank, as torchrun, Slurm or mpirun would on one host.

    ranks.py [--style torchrun|slurm|mpirun] -n RANKS [--leave-out RANK] COMMAND...

Every process gets the variables of that launcher. Output comes when all have ended, by rank: what
it printed, and on stderr what it complained of. The exit code is rank 0's, or 1 if another rank
failed alone. --leave-out does not start that rank.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile

TIME_LIMIT_S = 240


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def variables(style, rank, size, port):
    """What the launcher tells this rank."""
    if style == "torchrun":
        # Its own store listens on MASTER_PORT, the program on the next one.
        return {
            "RANK": rank,
            "WORLD_SIZE": size,
            "LOCAL_RANK": rank,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port - 1,
            "TORCHELASTIC_RUN_ID": f"test {port}",
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }
    if style == "slurm":
        return {
            "SLURM_PROCID": rank,
            "SLURM_NTASKS": size,
            "SLURM_LOCALID": rank,
            "SLURM_JOB_ID": port,
            "SLURM_STEP_ID": 0,
            "SLURM_STEP_NODELIST": "localhost",
            "MASTER_PORT": port,
        }
    return {
        "OMPI_COMM_WORLD_RANK": rank,
        "OMPI_COMM_WORLD_SIZE": size,
        "OMPI_COMM_WORLD_LOCAL_RANK": rank,
        "OMPI_COMM_WORLD_LOCAL_SIZE": size,
        "PMIX_NAMESPACE": f"test.{port}",
        "MASTER_PORT": port,
    }


KNOWN = {name for style in ("torchrun", "slurm", "mpirun") for name in variables(style, 0, 1, 1)}


class Rank:
    """One process. Its output goes to files: pipes that nobody reads yet would hold it up."""

    def __init__(self, arguments, rank, port):
        told = variables(arguments.style, rank, arguments.ranks, port)
        kept = {name: value for name, value in os.environ.items() if name not in KNOWN}
        self.output = tempfile.TemporaryFile()
        self.complaints = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            arguments.command,
            env=kept | {name: str(value) for name, value in told.items()},
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
    parser.add_argument("--style", choices=("torchrun", "slurm", "mpirun"), default="torchrun")
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
