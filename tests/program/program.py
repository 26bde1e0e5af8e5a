"""Shared parts of the tests of the program's commands: a folder of its own for each test, and runs
in it."""

import atexit
import functools
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())


def need(*modules):
    """Ends this test as skipped (77) where a module is not installed for this Python."""
    for name in modules:
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None:  # tests/program/torch is no module
            print(f"skipped: no module {name}; pip install torch numpy pytest spmd_types (5 GB) "
                  "has all")
            sys.exit(77)


@functools.cache
def warm_python():
    """The path of a Python that has imported PyTorch before (support/warm_python.py)."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    script = pathlib.Path(__file__).parents[1] / "support/warm_python.py"
    python = pathlib.Path(folder.name, pathlib.Path(sys.executable).name)
    python.write_text(f"#!/bin/sh\nexec {sys.executable} -SE {script} {python} "
                      f'{folder.name}/socket "$@"\n', encoding="utf-8")
    python.chmod(0o700)
    server = subprocess.Popen([sys.executable, script, "--serve", f"{folder.name}/socket"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(server.communicate)
    if not server.stdout.readline():
        raise RuntimeError(f"{script} has not begun")
    return str(python)


def in_parts(loader, tests, pattern):
    """For load_tests: the tests of the part that the third argument names, 2/6 for every sixth test
    from the second on, by their names; all without one."""
    part, parts = map(int, sys.argv[3].split("/")) if sys.argv[3:] else (1, 1)
    every = [test for suite in tests for test in suite]
    return unittest.TestSuite(every[part - 1 :: parts])


class Program(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def plant(self, **files):
        """Writes each text to the file of that name, with the ending .toml."""
        for name, text in files.items():
            (self.folder / f"{name}.toml").write_text(text, encoding="utf-8")

    def shardlab(self, *arguments, text=None, before=()):
        """(exit code, stdout, stderr); with a text, of its run as file t.toml. `before`: words
        before the program, such as a launcher."""
        if text is not None:
            self.plant(t=text)
            arguments += ("t.toml",)
        done = subprocess.run(
            [*before, PROGRAM, *arguments], cwd=self.folder, env={**os.environ, "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=120,
            errors="backslashreplace",  # names in damaged files are printed as they are
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def fine(self, *arguments, text=None, before=()):
        """The program's output; it must end with 0 and complain of nothing."""
        code, output, errors = self.shardlab(*arguments, text=text, before=before)
        self.assertEqual((code, errors), (0, ""), output)
        return output

    def section(self, output, title):
        """The lines below a title, up to the next empty line."""
        _, found, rest = output.partition(f"\n\n{title}\n")
        self.assertTrue(found, output)
        return rest.partition("\n\n")[0].splitlines()
