#!/usr/bin/env python3
"""A user who is not root, on a system without a compiler: packages are unpacked, and shardlab
configured.

    unpack_test.py ROOT

In a clean root, as an ordinary user, with the files that git tracks below ROOT. Building all of it
takes as long as elsewhere, so only a library and a program are built.
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

import clean_root  # noqa: E402

ROOT = sys.argv[1]
PROGRAM = """
#include <fmt/format.h>
int main() { fmt::print("{}", __VERSION__); }
"""


class Unpack(unittest.TestCase):
    # Once for the class: unittest calls it an error where a single test leaves as skipped.
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        folder = pathlib.Path(temporary.name, "root")
        folder.mkdir()
        cls.root = clean_root.CleanRoot(folder)
        cls.root.update_packages()
        files = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, check=False)
        if files.returncode != 0:
            clean_root.skip("git does not know what belongs to the repository")
        pack = ["tar", "-C", ROOT, "--owner=65534", "--group=65534", "-cf", "-", "-T", "-"]
        archive = subprocess.run(pack, input=files.stdout, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-C", folder / "srv", "-xf", "-"], input=archive, check=True)
        (folder / "srv/program.cpp").write_text(PROGRAM)
        subprocess.run(["chown", "65534:65534", folder / "srv"], check=True)

    def as_user(self, command, code=0):
        return self.root.run(f"cd /srv && {command}", user=clean_root.NOBODY, code=code)

    def test_what_is_missing_is_unpacked_and_used(self):
        told = self.as_user("tests/run --list 2>&1", code=2)
        self.assertIn("sudo apt-get install -y --no-install-recommends meson ninja-build", told)
        self.assertIn("or, without root, tests/support/unpack\n", told)
        self.assertIn("unpacked in /srv/build-packages\n", self.as_user("tests/support/unpack"))
        self.assertRegex(self.as_user("tests/run --list"), r"\nunit +\d+ tests\n")
        use = ". build-packages/environment &&"
        self.as_user(f"{use} ninja -C build tests/libdoctest.a")
        # A program finds its libraries without the environment, too.
        self.as_user(f"{use} c++ program.cpp $(pkg-config --libs fmt) -o program")
        self.assertRegex(self.as_user("./program"), r"^\d+\.\d+")
        # Nothing was installed.
        self.root.run("command -v meson", code=127)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
