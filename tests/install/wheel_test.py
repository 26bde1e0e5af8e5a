#!/usr/bin/env python3
"""The wheel is installed into a folder of its own, and runs there.

    wheel_test.py BUILD
"""

import base64
import csv
import hashlib
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.dont_write_bytecode = True

from commands import output  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
BUILD = sys.argv[1]


def install(wheel, folder):
    """As pip does; where there is none, by its rules for the three kinds of files."""
    pip = (sys.executable, "-m", "pip")
    if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode == 0:
        output(*pip, "install", "--quiet", "--no-index", "--no-deps", "--no-compile",
               "--disable-pip-version-check", "--root-user-action=ignore", "--target", folder,
               wheel)
        return
    with zipfile.ZipFile(wheel) as file:
        for member in file.infolist():
            kind = member.filename.partition(".data/")[2].split("/", 1)
            name = {"scripts": "bin/", "data": ""}.get(kind[0], "")
            path = folder / (name + kind[1] if len(kind) == 2 else member.filename)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.read(member))
            path.chmod(member.external_attr >> 16 & 0o777)


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        make = HERE.parents[1] / "sim/install/wheel"
        cls.wheel = pathlib.Path(output(make, "--from", BUILD, cls.folder / "dist").strip())
        cls.site = cls.folder / "site"
        install(cls.wheel, cls.site)

    def run_there(self, *command, code=0):
        return output(*command, code=code, cwd=self.folder, env={"PATH": "/usr/bin:/bin"})

    def test_the_program_runs_a_scenario_by_name(self):
        program = self.site / "bin/shardlab"
        self.assertRegex(self.run_there(program, "--version"), r"^shardlab \d+\.\d+\.\d+")
        told = self.run_there(program, "run", "--summary", "smoke/add")
        self.assertIn("ok     site/share/shardlab/scenarios/smoke/add.toml", told)
        told = self.run_there(program, "record", "--print-path").strip()
        self.assertTrue(pathlib.Path(told).is_relative_to(self.site.resolve()), told)

    def test_libraries_that_few_machines_have_are_its_own(self):
        common = {"ld-linux-x86-64", "libc", "libm", "libstdc++", "libgcc_s", "libz", "libdl",
                  "libpthread", "librt", "linux-vdso", "ld-linux-aarch64"}
        for line in output("ldd", self.site / "bin/shardlab").splitlines():
            words = line.split()
            if pathlib.Path(words[0]).name.split(".so")[0] not in common:
                self.assertIn(str(self.site.resolve()), str(pathlib.Path(words[2]).resolve()), line)

    def test_its_list_has_every_file_and_its_sum(self):
        with zipfile.ZipFile(self.wheel) as file:
            own = next(name for name in file.namelist() if name.endswith(".dist-info/RECORD"))
            rows = list(csv.reader(io.StringIO(file.read(own).decode())))
            self.assertEqual({row[0] for row in rows}, set(file.namelist()))
            for name, text, size in rows:
                if name == own:
                    continue
                data = file.read(name)
                sum_of = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
                self.assertEqual((text, size), ("sha256=" + sum_of.rstrip("="), str(len(data))))
            for name in ("shardlab_record.py", "shardlab_pytest.py"):
                self.assertIn(name, file.namelist())

    def test_the_tag_names_this_machine(self):
        words = self.wheel.stem.split("-")
        self.assertEqual((words[0], *words[2:4]), ("shardlab", "py3", "none"))
        self.assertRegex(words[4], r"^(manylinux_\d+_\d+|linux|macosx_\d+_\d+)_\w+$")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
