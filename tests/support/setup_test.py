#!/usr/bin/env python3
"""tests/run and scenarios/run name exactly the missing parts, and refuse options they do not know.

Scripts in place of dpkg-query, id, sudo and apt-get come first on the PATH, so that nothing is
installed or built here.
"""

import pathlib
import subprocess
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DPKG_WITHOUT_CLI11 = 'case "$*" in *libcli11-dev*) exit 1 ;; esac\necho installed\n'
RECORD = 'echo "apt-get $*" >>"$APT_LOG"\n'


class SetUp(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.apt_log = self.folder / "apt.log"

    def run_script(self, *command, **stand_ins):
        for name, text in stand_ins.items():
            path = self.folder / name.replace("_", "-")
            path.write_text("#!/bin/sh\n" + text)
            path.chmod(0o755)
        path = f"{self.folder}:/usr/local/bin:/usr/bin:/bin"
        return subprocess.run(
            [REPOSITORY / command[0], *command[1:]],
            cwd=self.folder,
            env={"PATH": path, "HOME": str(self.folder), "APT_LOG": str(self.apt_log)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    def test_who_may_not_install_gets_the_line_to_type(self):
        done = self.run_script(
            "tests/run", dpkg_query=DPKG_WITHOUT_CLI11, id="echo 1000\n", sudo="exit 1\n"
        )
        self.assertEqual(done.returncode, 2)
        self.assertEqual(
            done.stderr,
            "error: packages are missing and cannot be installed from here; type\n\n"
            "  sudo apt-get update && "
            "sudo apt-get install -y --no-install-recommends libcli11-dev\n\n"
            "or, without root, tests/support/unpack\n",
        )
        self.assertFalse(self.apt_log.exists())

    def test_root_installs_what_is_missing_and_tries_the_update_twice(self):
        apt = RECORD + '[ "$1" = install ] && echo "no such package" && exit 100\nexit 1\n'
        done = self.run_script(
            "tests/run", dpkg_query=DPKG_WITHOUT_CLI11, id="echo 0\n", apt_get=apt
        )
        self.assertEqual(done.returncode, 2)
        self.assertIn("no such package\n", done.stderr)
        self.assertIn("error: apt-get could not install: libcli11-dev\n", done.stderr)
        update, install = "apt-get update\n", "apt-get install -y --no-install-recommends "
        self.assertEqual(self.apt_log.read_text(), update * 2 + install + "libcli11-dev\n")

    def test_only_who_asks_for_mpi_installs_it(self):
        dpkg = 'case "$*" in *openmpi*|*libcli11-dev*) exit 1 ;; esac\necho installed\n'
        apt = RECORD + 'case "$*" in *openmpi*) exit 100 ;; esac\n'
        scenario = str(REPOSITORY / "scenarios/smoke/add.toml")
        for options, asks in (((), False), (("--backend", "mpi"), True)):
            self.apt_log.write_text("")
            self.run_script(
                "scenarios/run", scenario, *options,
                dpkg_query=dpkg, id="echo 0\n", apt_get=apt, meson="exit 1\n", ninja="exit 1\n",
            )
            self.assertIn("libcli11-dev", self.apt_log.read_text())
            self.assertEqual("openmpi" in self.apt_log.read_text(), asks, options)

    def test_sudo_without_a_password_installs(self):
        sudo = '[ "$2" = true ] && exit 0\nshift\nexec "$@"\n'
        done = self.run_script(
            "tests/run",
            dpkg_query=DPKG_WITHOUT_CLI11,
            id="echo 1000\n",
            sudo=sudo,
            apt_get=RECORD + '[ "$1" = update ]\n',
        )
        self.assertEqual(done.returncode, 2)
        self.assertIn("install -y --no-install-recommends libcli11-dev", self.apt_log.read_text())

    def test_building_for_another_processor_needs_its_compiler_and_an_emulator(self):
        installed = 'case "$*" in *g++-aarch64*|*qemu-user*) exit 1 ;; esac\necho installed\n'
        done = self.run_script(
            "tests/install/cross",
            "aarch64",
            dpkg_query=installed,
            id="echo 1000\n",
            sudo="exit 1\n",
            uname="echo x86_64\n",
        )
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertEqual(
            done.stdout,
            "skipped: needs g++-aarch64-linux-gnu qemu-user: sudo apt-get install -y "
            "--no-install-recommends g++-aarch64-linux-gnu qemu-user\n",
        )
        self.assertFalse(self.apt_log.exists())

    def test_it_is_no_other_processor_on_its_own_or_where_nobody_knows_it(self):
        done = self.run_script("tests/install/cross", "aarch64", uname="echo aarch64\n")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, "error: this processor is aarch64: tests/run\n")
        for words, said in (
            (["mips"], "error: tests/install/cross builds for aarch64, not for 'mips'\n"),
            (["--fast"], "error: tests/install/cross has no option --fast; --help lists them\n"),
        ):
            done = self.run_script("tests/install/cross", *words)
            self.assertEqual((done.returncode, done.stderr), (2, said))

    def told(self, script, **variables):
        """Output of a script that has the functions of setup.sh."""
        done = subprocess.run(
            ["bash", "-c", f'. "{REPOSITORY}/tests/support/setup.sh" && {script}'],
            env={"PATH": f"{self.folder}:/usr/bin:/bin", **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        return done.stdout or f"exit code {done.returncode}"

    def test_the_formatter_comes_by_pip_once_and_a_failure_leaves_its_reason(self):
        tools = self.folder / "tools"
        python = self.folder / "python3"
        python.write_text("#!/bin/sh\necho \"python3 $*\" >&2\nexit $STATUS\n")
        python.chmod(0o755)
        (self.folder / "id").symlink_to("/bin/false")
        (self.folder / "sudo").symlink_to("/bin/false")
        script = f'install_formatter "{tools}" && echo done'
        self.assertEqual(self.told(script, STATUS="1"), "exit code 1")
        asked = (tools / "log.txt").read_text().splitlines()
        pip = f"^python3 -m pip install .*--target {tools} -r .*formatter.txt$"
        self.assertRegex(asked[-1], pip)
        self.assertEqual(self.told(script, STATUS="0"), "done\n")
        (tools / "log.txt").unlink()
        self.assertEqual(self.told(script, STATUS="1"), "done\n")
        self.assertFalse((tools / "log.txt").exists())

    def test_a_room_is_named_by_its_folder_or_by_its_name_alone(self):
        for name, suite in (("unit", "unit"), ("edit", "sim/edit"), ("sim/edit/", "sim/edit"),
                            ("nccl", "nccl"), ("backends/nccl", "backends/nccl")):
            script = f'suite_named {name} "$SUITES"'
            suites = "backends/nccl\nnccl\nsim/edit\nsim/edited\nunit"
            self.assertEqual(self.told(script, SUITES=suites), suite + "\n", name)
        self.assertEqual(self.told('suite_named edi "$SUITES"', SUITES="sim/edit"), "exit code 1")

    def test_a_skipped_test_has_to_be_one_of_those_named(self):
        log = self.folder / "testlog.json"
        log.write_text('{"name": "shardlab:install / a wheel", "result": "OK"}\n'
                       '{"name": "shardlab:slow / a root", "result": "SKIP"}\n'
                       '{"name": "a page", "result": "SKIP", "stdout": "skipped: no browser\\n"}\n')
        allowed = f'skipped_are "{log}" "a root"'
        self.assertEqual(self.told(f'{allowed} "a page" && echo done'), "done\n")
        self.assertEqual(
            self.told(f"{allowed} && echo done"),
            "skipped, which is not allowed here: a page\nskipped: no browser\n")

    def test_each_system_gets_the_line_of_its_package_manager(self):
        release = self.folder / "os-release"
        script = (
            f'manager=$(package_manager "{release}" "$KERNEL") &&'
            ' install_line "$manager" $(package_names "$manager" build)'
        )
        debian = (
            "sudo apt-get install -y --no-install-recommends meson ninja-build g++ pkg-config cmake"
            " libeigen3-dev libfmt-dev doctest-dev libboost-context-dev libtomlplusplus-dev"
            " libcli11-dev nlohmann-json3-dev zlib1g-dev libbenchmark-dev\n"
        )
        fedora = (
            "sudo dnf install -y meson ninja-build gcc-c++ pkgconf-pkg-config cmake eigen3-devel"
            " fmt-devel doctest-devel boost-devel tomlplusplus-devel cli11-devel json-devel"
            " zlib-devel google-benchmark-devel\n"
        )
        arch = (
            "sudo pacman -S --needed meson ninja gcc pkgconf cmake eigen fmt doctest boost"
            " tomlplusplus cli11 nlohmann-json zlib benchmark\n"
        )
        macos = (
            "brew install bash meson ninja pkgconf cmake eigen fmt doctest boost tomlplusplus cli11"
            " nlohmann-json zlib google-benchmark\n"
        )
        conda = (
            "conda install -y -c conda-forge meson ninja cxx-compiler pkg-config cmake eigen fmt"
            " doctest libboost-devel tomlplusplus cli11 nlohmann_json zlib benchmark\n"
        )
        for text, variables, line in (
            ('PRETTY_NAME="Debian GNU/Linux 13"\nID=debian\n', {}, debian),
            ("ID=ubuntu\nID_LIKE=debian\n", {}, debian),
            ('ID=linuxmint\nID_LIKE="ubuntu debian"\n', {}, debian),
            ('ID=fedora\nVERSION_ID="42"\n', {}, fedora),
            ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', {}, fedora),
            ("ID=arch\n", {}, arch),
            ("ID=nixos\n", {}, "exit code 1"),
            ("", {"KERNEL": "Darwin"}, macos),
            ("ID=debian\n", {"CONDA_PREFIX": "/c", "CONDA_DEFAULT_ENV": "lab"}, conda),
            ("ID=debian\n", {"CONDA_PREFIX": "/c", "CONDA_DEFAULT_ENV": "base"}, debian),
        ):
            release.write_text(text)
            variables = {"KERNEL": "Linux", **variables}
            self.assertEqual(self.told(script, **variables), line, (text, variables))

    def test_other_package_managers_are_asked_what_is_missing(self):
        for name, text in (
            ("rpm", '[ "$3" != fmt-devel ]\n'),
            ("pacman", '[ "$2" != fmt ]\n'),
            ("brew", '[ "$3" != fmt ]\n'),
        ):
            (self.folder / name).write_text("#!/bin/sh\n" + text)
            (self.folder / name).chmod(0o755)
        (self.folder / "conda-meta").mkdir()
        (self.folder / "conda-meta/cmake-4.0.1-h1.json").write_text("")
        script = "missing_from {0} $(package_names {0} build)"
        for manager, missing in (("dnf", "fmt-devel\n"), ("pacman", "fmt\n"), ("brew", "fmt\n")):
            self.assertEqual(self.told(script.format(manager)), missing)
        self.assertEqual(
            self.told("missing_from conda cmake fmt", CONDA_PREFIX=str(self.folder)), "fmt\n"
        )

    def test_unknown_arguments_are_refused(self):
        for command, text in (
            (("tests/run", "--nosuch"), "error: tests/run has no option --nosuch"),
            (("tests/run", "--sanitize"), "error: --sanitize needs a kind"),
            (("tests/run", "--sanitize", "memory"), "error: --sanitize memory: there are"),
            (("scenarios/run", "no/such"), "error: none of these is a scenario: no/such"),
        ):
            done = self.run_script(*command)
            self.assertEqual(done.returncode, 2, command)
            self.assertIn(text, done.stderr)

    def test_a_module_is_built_when_asked_for_where_its_library_is(self):
        rules = self.folder / "build.ninja"
        script = '. "$1/tests/support/setup.sh" && shift && program_targets "$@"'
        both, alone = "shardlab\nlibshardlab_cuda.so\n", "shardlab\n"
        mpi = "shardlab\nlibshardlab_mpi.so\n"
        for text, arguments, targets in (
            ("build libshardlab_cuda.so: CUSTOM", ("a.toml", "--device", "cuda"), both),
            ("build libshardlab_cuda.so: CUSTOM", ("--device=cuda", "a.toml"), both),
            ("build libshardlab_cuda.so: CUSTOM", ("a.toml", "--device", "cpu"), alone),
            ("build shardlab: LINKER", ("a.toml", "--device", "cuda"), alone),
            ("build libshardlab_mpi.so: LINKER", ("a.toml", "--backend", "mpi"), mpi),
            ("build libshardlab_mpi.so: LINKER", ("a.toml", "--backend", "threads"), alone),
        ):
            rules.write_text(text + "\n")
            done = subprocess.run(
                ["bash", "-c", script, "bash", REPOSITORY, self.folder, *arguments],
                capture_output=True,
                encoding="utf-8",
                check=True,
            )
            self.assertEqual(done.stdout, targets, arguments)

    def test_help_has_examples(self):
        for script in ("tests/run", "scenarios/run", "tests/install/deb", "tests/support/unpack"):
            done = self.run_script(script, "--help")
            self.assertEqual(done.returncode, 0)
            examples = done.stdout.partition("examples:\n")[2].splitlines()
            self.assertEqual({line.split()[0] for line in examples}, {script})
            self.assertGreater(len(examples), 1)


if __name__ == "__main__":
    unittest.main()
