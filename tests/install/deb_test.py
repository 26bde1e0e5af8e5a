#!/usr/bin/env python3
"""The Debian package is installed into a clean root, and runs there without a compiler.

    deb_test.py BUILD

apt decides what it needs; a user who is not root gets the first verdict.
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

import clean_root  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
BUILD = sys.argv[1]


class Deb(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        root = pathlib.Path(cls.temporary.name, "root")
        root.mkdir()
        cls.root = clean_root.CleanRoot(root)
        cls.root.update_packages()
        command = [HERE / "deb", "--from", BUILD, root / "srv"]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
        cls.package = pathlib.Path(done.stdout.strip())

    def as_user(self, command):
        return self.root.run(f"cd /srv && {command}", user=clean_root.NOBODY)

    def test_from_nothing_to_a_verdict_and_back(self):
        find = "find / -xdev -name '*shardlab*' -not -path '/srv/*' -not -path '/var/*'"
        self.assertEqual(self.root.run(find), "")
        self.root.run(
            "DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends"
            f" /srv/{self.package.name}"
        )
        for compiler in ("c++", "g++", "clang++"):
            self.root.run(f"command -v {compiler}", code=127)
        told = self.as_user("shardlab run models/megatron_mlp")
        ok = "ok     /usr/share/shardlab/scenarios/models/megatron_mlp.toml  8 ranks"
        self.assertIn(ok, told)
        told = self.as_user("shardlab test /usr/share/shardlab/scenarios/smoke")
        self.assertRegex(told, r"\n\d+ passed, 0 failed\n")
        self.root.run("cd / && md5sum --quiet -c /var/lib/dpkg/info/shardlab.md5sums")
        self.root.run("apt-get remove -y shardlab")
        self.assertEqual(self.root.run(find), "")

    def test_it_needs_what_it_links(self):
        field = ["dpkg-deb", "-f", self.package, "Depends"]
        needs = subprocess.run(field, capture_output=True, encoding="utf-8", check=True).stdout
        names = {need.split()[0] for need in needs.split(", ")}
        self.assertLessEqual({"libc6", "libstdc++6"}, names)
        self.assertNotIn("libopenmpi3", names)

    def test_the_same_build_gives_the_same_package(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([HERE / "deb", "--from", BUILD, folder], capture_output=True, check=True)
            again = (pathlib.Path(folder) / self.package.name).read_bytes()
        self.assertEqual(again, self.package.read_bytes())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
