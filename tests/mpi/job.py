"""Starts shardlab, or a test program, as a job of several processes."""

import json
import os
import subprocess

ENVIRONMENT = dict(
    os.environ,
    # Containers run as root, and have fewer processors than ranks.
    OMPI_ALLOW_RUN_AS_ROOT="1",
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
    OMPI_MCA_rmaps_base_oversubscribe="1",
)
TIMEOUT = 300
# Seconds that a limit gains because the suite runs other tests next to these ones on two cores.
NEIGHBOURS = float(os.environ.get("SHARDLAB_NEIGHBOURS", 15))


def output(*command):
    """Exit code and standard output. Messages of launchers are sent to standard error."""
    done = subprocess.run(
        [str(word) for word in command],
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        timeout=TIMEOUT,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def reports(text):
    """One JSON report a line."""
    return [json.loads(line) for line in text.splitlines()]
