#!/usr/bin/env python3
"""The installed copy is complete, and may be moved: programs and tests build and run against it.

    install_test.py Programs|Examples|Extensions BUILD LIBDIR COMPILER...

Installs BUILD below a temporary folder, renames that, asks pkg-config and CMake there, builds the
programs of this folder outside of the repository and runs them, and the examples of all pages: a
block ```cpp NAME of one is a program, or the file NAME.inc that a program here includes. Runs an
installed scenario with the installed program. None of them finds the repository.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

from commands import output  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLE = re.compile(r"^```cpp (\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PART, BUILD, LIBDIR, *COMPILER = sys.argv[1:]
ON_ONE_HOST = {  # for jobs of mpirun
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "ASAN_OPTIONS": "detect_leaks=0",
}


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        install = ("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet")
        output(*install, "--destdir", cls.folder / "d")
        cls.prefix = cls.folder / "moved here"
        (cls.folder / "d/usr/local").rename(cls.prefix)
        cls.examples = {}
        for page in HERE.parents[1].glob("*/**/README.md"):
            cls.examples.update(EXAMPLE.findall(page.read_text(encoding="utf-8")))
        for name, text in cls.examples.items():
            (cls.folder / f"{name}.inc").write_text(text, encoding="utf-8")

    @classmethod
    def flags(cls, package):
        return shlex.split(
            output(
                "pkg-config",
                "--cflags",
                "--libs",
                package,
                env={**os.environ, "PKG_CONFIG_PATH": str(cls.prefix / LIBDIR / "pkgconfig")},
            )
        )

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def build(self, name, package="shardlab", text=None):
        """The program made from a source of this folder, copied away from the repository, or from
        another text; once for all tests."""
        program = self.folder / name
        if program.exists():
            return program
        source = self.folder / f"{name}.cpp"
        if text is None:
            here = HERE / source.name
            text = (here if here.exists() else HERE / "examples" / source.name).read_text(
                encoding="utf-8")
        source.write_text(text, encoding="utf-8")
        warnings = ("-Wall", "-Wextra", "-Werror")
        examples = f"-I{self.folder}"
        output(*COMPILER, *warnings, examples, source, *self.flags(package), "-o", program)
        return program


class Programs(Installed):
    def test_flags_name_the_copy_only(self):
        for flag in self.flags("shardlab-conformance"):
            self.assertNotIn(str(HERE.parents[1]), flag)

    def test_the_first_program(self):
        page = (HERE.parents[1] / "src/api/README.md").read_text(encoding="utf-8")
        told = output(self.build("first", text=self.examples["first"]))
        self.assertIn(f"It prints `{told.strip()}`", page)

    def test_a_program_that_fails_says_why_and_ends_with_1(self):
        program = self.build("first", text=self.examples["first"])
        told = output(program, "--ranks", "4", code=1, errors=True)
        self.assertRegex(told, r"^error: a mesh names rank 4 in a world of 4 ranks\n")
        told = output(program, "--ranks", "none", code=2, errors=True)
        self.assertRegex(told, r"^error: --ranks: 'none' is not a whole number.*\n +fix  ")

    def test_pieces_of_programs(self):
        self.assertRegex(
            output(self.build("pages")),
            r"^by hand: 0\.9 1\.9 2\.9\n"
            r"around: 0\.5 0\.5 0\.5\naround: 0 gathers, not recorded\n"
            r"own gradient: 2 2 2\nmemory: 0\.5 1 of 12\n"
            r"traced: the graph does not fit: .*\n"
            r"x  f32\[8@dp, 16\]  \w+\ndigests \w+ \w+\n",
        )

    def test_a_training_loop(self):
        program = self.build("train", text=self.examples["train"])
        loss = re.compile(r"step (\d+): loss (\d\.\d{3})\n")
        eight = loss.findall(output(program))
        self.assertEqual([step for step, _ in eight], ["0", "20", "40"])
        self.assertLess(float(eight[2][1]), float(eight[0][1]) / 4)
        environment = {**os.environ, "SHARDLAB_RANKS": "4", "SHARDLAB_WORKERS": "1"}
        self.assertEqual(loss.findall(output(program, env=environment)), eight)
        modules = self.prefix / "lib/shardlab"
        if not shutil.which("mpirun") or not (modules / "libshardlab_mpi.so").exists():
            return
        # Four processes: as many ranks, without an option for it.
        environment = {**os.environ, **ON_ONE_HOST, "SHARDLAB_MODULES": str(modules)}
        job = ("mpirun", "-n", "4", program, "--backend", "mpi")
        # Its installation was moved since it was built.
        untold = {key: value for key, value in environment.items() if key != "SHARDLAB_MODULES"}
        lost = subprocess.run(job, env=untold, capture_output=True, text=True, check=False)
        self.assertIn("set SHARDLAB_MODULES to the folder lib/shardlab", lost.stderr)
        self.assertEqual(loss.findall(output(*job, env=environment)), eight)

    def test_headers_have_no_warnings(self):
        source = self.folder / "headers.cpp"
        names = sorted(path.name for path in (self.prefix / "include/shardlab").glob("*.h"))
        self.assertIn("testing.h", names)
        source.write_text("".join(f"#include <shardlab/{name}>\n" for name in names))
        flags = [flag for flag in self.flags("shardlab") if not flag.startswith(("-l", "-L"))]
        compilers = [COMPILER]
        if shutil.which("clang++"):
            compilers.append(("clang++", "-std=c++20"))
        for compiler in compilers:
            output(*compiler, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *flags, source)

    @unittest.skipUnless(shutil.which("cmake"), "there is no cmake here")
    def test_a_program_by_cmake(self):
        folder = self.folder / "cmake"
        folder.mkdir()
        shutil.copy(HERE / "program.cpp", folder)
        (folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.16)\n"
            "project(user LANGUAGES CXX)\n"
            "find_package(shardlab 0.1 REQUIRED)\n"
            "add_executable(program program.cpp)\n"
            "target_link_libraries(program shardlab::shardlab)\n"
        )
        tools = [word for word in COMPILER if not word.startswith("-")]
        choice = [f"-DCMAKE_CXX_COMPILER={tools[-1]}"]
        if len(tools) > 1:
            choice.append(f"-DCMAKE_CXX_COMPILER_LAUNCHER={';'.join(tools[:-1])}")
        options = " ".join(word for word in COMPILER if word.startswith("-"))
        found = f"-Dshardlab_DIR={self.prefix / LIBDIR}/cmake/shardlab"
        made = folder / "made"
        output("cmake", "-S", folder, "-B", made, *choice, f"-DCMAKE_CXX_FLAGS={options}", found)
        output("cmake", "--build", made)
        self.assertIn("f32[3, 2]{sum:tp} -> f32[3, 2], 10\n", output(made / "program"))

    def test_a_program(self):
        told = output(self.build("program"))
        self.assertEqual(told, "f32[3, 2]{sum:tp} -> f32[3, 2], 10\n")


class Examples(Installed):
    """The programs of examples/, on threads and, where it is, over MPI: with the same output."""

    def told(self, name, *arguments):
        program = self.build(name)
        told = output(program, *arguments, cwd=self.folder)
        modules = self.prefix / "lib/shardlab"
        if not arguments and shutil.which("mpirun") and (modules / "libshardlab_mpi.so").exists():
            environment = {**os.environ, **ON_ONE_HOST, "SHARDLAB_MODULES": str(modules)}
            job = ("mpirun", "-n", "4", program, "--backend", "mpi")
            self.assertEqual(output(*job, cwd=self.folder, env=environment), told)
        return told

    def test_zero1(self):
        numbers = re.compile(r"(\d+\.\d+)")
        four, one = (list(map(float, numbers.findall(self.told("zero1", *arguments))))
                     for arguments in ((), ("--ranks", "1")))
        self.assertEqual(len(four), 10)
        for mine, others in zip(four, one):
            self.assertAlmostEqual(mine, others, delta=2e-4)
        self.assertLess(four[8], four[0])  # losses

    def test_views_of_the_ranks(self):
        numbers = re.compile(r"(\d+\.\d+)")
        four, one = (list(map(float, numbers.findall(self.told("views", *arguments))))
                     for arguments in ((), ("--ranks", "1")))
        self.assertEqual(len(four), 3)
        for mine, others in zip(four, one):
            self.assertAlmostEqual(mine, others, delta=2e-4 * others)
        self.assertGreater(four[1], 0.5)
        self.assertAlmostEqual(four[2], 0.5, delta=1e-3)

    def test_gpipe(self):
        self.assertRegex(self.told("pipe"), r"^stage 1: loss \d\.\d{4} \|g\| 0\.\d{5}\n$")

    def test_an_op_of_ones_own(self):
        self.assertIn("1 passed", output(self.build("own_op")))

    def test_data_in_and_out(self):
        row = range(8, 16)
        self.assertEqual(self.told("spans"), f"144 {sum(x * x for x in row)}\n")

    def test_a_communicator_that_counts(self):
        # Each rank: a gather for the product, the sum of its terms, a gather of the whole.
        self.assertEqual(output(self.build("counting")), "12 calls\n")


class Extensions(Installed):
    def test_the_test_on_ranks_of_the_page(self):
        program = self.build("column_parallel", text=self.examples["column_parallel"])
        self.assertIn("1 passed", output(program))

    def test_a_test_on_ranks(self):
        program = self.build("ranks_test")
        # doctest's data per thread is shared by the fibers of one, which take turns.
        quiet = self.folder / "suppressions"
        quiet.write_text("race:doctest::toString\nrace:doctest::detail::\n", encoding="utf-8")
        environment = {**os.environ, "TSAN_OPTIONS": f"suppressions={quiet}"}
        self.assertIn("1 passed", output(program, "-tc=holds", env=environment))
        told = output(program, "-tc=fails", code=1, env=environment)
        self.assertIn("2 <  2 on rank 2\n3 <  2 on rank 3", told)
        self.assertEqual(told.count("ERROR: CHECK( rank.rank < 2 )"), 1)
        self.assertIn("element 4 is 1, expected 2: off by 1", told)

    def test_a_backend_passes_the_conformance_suite(self):
        program = self.build("own_backend", "shardlab-conformance")
        self.assertRegex(output(program, "--no-colors"), r"cases: +\d+ \| +\d+ passed \| 0 failed")
        told = output(
            program,
            "--no-colors",
            "--test-case=all_reduce*",
            code=1,
            env={**os.environ, "SPOILT": "1"},
        )
        self.assertIn("all_reduce, every dtype and op", told)
        self.assertRegex(told[-1000:], r"cases: +1 \| +0 passed \| +1 failed")

    def test_wrappers_on_all_ranks_and_on_classes_of_them(self):
        counted = " 1 all_gather over tp, 1 all_reduce over tp, 1 batch over tp,\n"
        self.assertEqual(
            output(self.build("extensions")),
            "fault: right without it; with it wrong in line 13, redistribute\n"
            f"threads:{counted}fake:{counted}",
        )

    def test_ops_and_rules(self):
        # Row i of 0..14 in three columns: 0.5 (27 i^2 + 18 i + 5). Weighted by i + 1 the sum of all
        # has the slope (i + 1) x.
        energies = "2.5 25 74.5 151 254.5"
        slopes = "0 1 2 6 8 10 18 21 24 36 40 44 60 65 70"
        self.assertEqual(
            output(self.build("own_ops")),
            f"op: f32[5@tp] {energies}, f32[5@tp, 3] {slopes},"
            f" f32[5]{{sum:tp}} {energies}, f32[5, 3@tp] {slopes},\n"
            "scenario: threads met fake met, with a rule met\n"
            "shipped: right, y f32[7, 5]{sum:tp}, z f32[7, 5], u f32[7, 5]{sum:tp},"
            " v f32[7]{sum:tp}, 1 all_reduce, 0 all_gather\n"
            "own: right, y f32[7, 5], z f32[7, 5], u f32[7, 5]{sum:tp},"
            " v f32[7], 1 all_reduce, 2 all_gather\n"
            "not a rule: wrong in line 11, aten::exp, y f32[7, 5]{sum:tp}, z f32[7, 5]{sum:tp},"
            " u f32[7, 5]{sum:tp}, v f32[7]{sum:tp}, 0 all_reduce, 0 all_gather\n"
            "local: right, y f32[3, 7@tp], x.grad f32[3, 7@tp], w.grad f32[7@tp], 1 all_reduce,"
            " 1 all_gather\n"
            "loop: right, y f32[6, 7@tp], z f32[7@tp, 3], x.grad f32[7@tp, 6], 0 all_reduce,"
            " 0 all_gather\n",
        )

    def shrunk(self, program, *arguments, code=1):
        """The output of a wrong program, the summary of shrink, and the scenario that is left,
        which is run: as it expects, it fails."""
        graph, small = self.folder / "wrong.graph", self.folder / "small.toml"
        environment = {**os.environ, "SHARDLAB_GRAPH": str(graph)}
        told = output(program, *arguments, code=code, env=environment, errors=True)
        shardlab = self.prefix / "bin/shardlab"
        summary = output(shardlab, "shrink", graph, "-o", small)
        self.assertIn("1 passed, 0 failed", output(shardlab, "test", small))
        text = small.read_text(encoding="utf-8")
        self.assertLessEqual(len(text.splitlines()), 15)
        return told, summary, text

    def test_the_graph_of_a_program_that_waits_for_ever(self):
        program = self.build("one_is_missing", text=self.examples["one_is_missing"])
        told, summary, text = self.shrunk(program)
        page = (HERE.parents[1] / "src/api/README.md").read_text(encoding="utf-8")
        self.assertIn(told.splitlines()[0], page)
        self.assertIn(summary.splitlines()[0], page)
        self.assertIn(text, page)

    def test_graphs_of_programs_that_are_wrong(self):
        # Expected are the planted mistakes, at the lines of the source that say so.
        for name, test, expected in (
            ("missing_sum", "wrong", 'cause = "cause.missing-sum"'),
            ("mismatch", "wrong", 'verdict = "mismatch"'),
            ("wrong", "wrong_test", 'error = { kind = "Assert" }'),
        ):
            with self.subTest(name):
                lines = (HERE / f"{test}.cpp").read_text(encoding="utf-8").splitlines()
                line = 1 + next(i for i, one in enumerate(lines) if one.endswith(f"// {name}"))
                code = 0 if name == "missing_sum" else 1
                _, summary, text = self.shrunk(self.build(test), name, code=code)
                # The cause of a plain value is told at a statement without a place in C++.
                if name != "missing_sum":
                    self.assertIn(f"{test}.cpp:{line}\n", summary)
                self.assertIn(expected, text)

    def test_the_program_knows_its_scenarios_by_name(self):
        program = self.prefix / "bin/shardlab"
        told = output(program, "run", "smoke/add", cwd=self.folder, env={})
        self.assertIn("ok     moved here/share/shardlab/scenarios/smoke/add.toml", told)

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun here")
    def test_the_program_finds_its_module_for_mpi(self):
        if not (self.prefix / "lib/shardlab/libshardlab_mpi.so").exists():
            self.skipTest("built without MPI")
        environment = {"PATH": os.environ["PATH"], **ON_ONE_HOST}
        job = ("mpirun", "-n", "4", self.prefix / "bin/shardlab", "run", "--backend", "mpi")
        told = output(*job, "models/fsdp_linear", cwd=self.folder, env=environment)
        self.assertIn("ok     ", told)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], PART])
