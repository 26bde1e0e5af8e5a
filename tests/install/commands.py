"""Commands that the tests of this folder run, and their output."""

import shlex
import subprocess


def output(*command, code=0, errors=False, **options):
    """Output of a command, on stderr with ERRORS; an AssertionError with all of it where it ends
    with another code."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
        **options,
    )
    if done.returncode != code:
        raise AssertionError(f"{shlex.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stderr if errors else done.stdout
