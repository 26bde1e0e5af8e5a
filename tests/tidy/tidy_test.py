#!/usr/bin/env python3
"""Each tidy check finds a planted violation, and leaves its innocent neighbour alone."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

import commits_test  # noqa: E402
import fixes  # noqa: E402
import functions  # noqa: E402
import patterns  # noqa: E402
import readme  # noqa: E402
import tidy  # noqa: E402
import uncalled  # noqa: E402
import walls  # noqa: E402
from source import Repository  # noqa: E402

# A tree without a violation.
CLEAN = {
    "src/base/error.h": "#pragma once\n",
    "src/base/error.cpp": '#include "base/error.h"\n',
    "src/base/rank_context.cpp": "thread_local int running = 0;\n",
    "src/mesh/layout.cpp": '#include "base/error.h"  // through tensor\n',
    "src/meson.build": "library_sources += files(\n"
    "  'base/error.cpp',\n  'base/rank_context.cpp',\n  'mesh/layout.cpp',\n)\n",
}
SLASH = "/"


def body(lines):
    """A function of that many lines, its signature and brace included."""
    return "int f() {\n" + "  step();\n" * (lines - 2) + "}\n"


class Tidy(unittest.TestCase):
    def plant(self, files):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        for name, text in {**CLEAN, **files}.items():
            path = pathlib.Path(temporary.name) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return Repository(temporary.name)

    def found(self, files):
        return [str(problem) for problem in tidy.problems_of(self.plant(files))]

    def assert_finds(self, files, expected):
        self.assertEqual(self.found(files), [expected])

    def assert_in_error_cpp(self, line, expected):
        self.assert_finds({"src/base/error.cpp": line + "\n"}, f"src/base/error.cpp:1: {expected}")

    def in_error_cpp(self, line):
        return self.found({"src/base/error.cpp": '#include "base/error.h"\n' + line + "\n"})

    def test_a_clean_tree(self):
        self.assertEqual(self.found({}), [])

    def test_integers_that_json_may_cut(self):
        for call in (
            'fact.at("n").get<int>()',
            "json.get<std::vector<std::int64_t>>()",
            'fact.value("n", std::size_t{0})',
            'fact.value("n", 1)',
        ):
            found = self.found({"sim/report/text.cpp": f"int f() {{ return {call}; }}\n"})
            self.assertEqual([text for text in found if "by integer_of()" in text][1:], [])
            self.assertTrue(any("by integer_of()" in text for text in found), call)

    def test_a_folder_at_the_top(self):
        self.assert_finds(
            {"tools/list.md": "", ".ci/list.md": ""},
            "tools/list.md: the top level has no folder tools",
        )

    def test_a_scenario_that_is_no_test(self):
        listed = {"scenarios/meson.build": "files('smoke/a.toml')", "scenarios/smoke/a.toml": ""}
        self.assertEqual(self.found(listed), [])
        self.assert_finds(
            {**listed, "scenarios/smoke/b.toml": ""},
            "scenarios/smoke/b.toml:1: scenarios/meson.build does not list it",
        )
        whole = {"scenarios/meson.build": "install_subdir('zoo', b)", "scenarios/zoo/a.toml": ""}
        self.assertEqual(self.found(whole), [])

    def test_an_include_against_the_law(self):
        self.assert_finds(
            {
                "src/base/error.cpp": '#include "base/error.h"\n#include "mesh/layout.h"\n',
                "src/mesh/layout.h": "#pragma once\n",
            },
            "src/base/error.cpp:2: src/base may not include src/mesh (mesh/layout.h)",
        )

    def test_sim_is_above_src(self):
        self.assert_finds(
            {
                "src/base/error.cpp": '#include "base/error.h"\n#include "sim/cli/a.h"\n',
                "sim/cli/a.h": "",
            },
            "src/base/error.cpp:2: src/base may not include sim/cli (sim/cli/a.h)",
        )

    def test_one_backend_does_not_know_another(self):
        files = {
            "backends/fake/a.h": "",
            "backends/fake/b.cpp": '#include "backends/fake/a.h"\n#include "base/error.h"\n',
            "backends/mpi/c.cpp": '#include "backends/fake/a.h"\n',
            "backends/meson.build": "files('fake/b.cpp', 'mpi/c.cpp')\n",
        }
        expected = "backends/mpi may not include backends/fake (backends/fake/a.h)"
        self.assert_finds(files, f"backends/mpi/c.cpp:1: {expected}")

    def test_a_folder_without_a_row(self):
        expected = "src/extra/a.cpp: src/extra has no row in the include law"
        files = {"src/extra/a.cpp": "", "src/extra/meson.build": "files('a.cpp')\n"}
        self.assert_finds(files, expected)

    def test_wings_of_a_room(self):
        files = {
            "src/ops/core/rows.h": "",
            "src/ops/register.h": '#include "ops/core/rows.h"\n',
            "src/ops/nn/norm.h": '#include "ops/core/rows.h"\n#include "ops/register.h"\n',
            "src/ops/linalg/norm.cpp": '#include "ops/nn/norm.h"\n',
            "src/ops/torch/names.cpp": '#include "ops/nn/norm.h"\n',
            "sim/language/odd/a.cpp": "",
            "src/ops/meson.build": "files('linalg/norm.cpp', 'torch/names.cpp')\n",
            "sim/language/meson.build": "files('odd/a.cpp')\n",
        }
        self.assertEqual(
            self.found(files),
            [
                "sim/language/odd/a.cpp: sim/language/odd has no row in the include law",
                "src/ops/linalg/norm.cpp:1: src/ops/linalg may not include src/ops/nn "
                "(ops/nn/norm.h)",
            ],
        )

    def test_sources_that_need_each_other(self):
        files = {
            "src/mesh/a.h": "",
            "src/mesh/a.cpp": '#include "mesh/a.h"\n#include "mesh/own.h"\n',
            "src/mesh/own.h": '#include "mesh/a.h"\n#include "mesh/b.h"\n',
            "src/mesh/b.h": "",
            "src/mesh/b.cpp": '#include "mesh/b.h"\n',
            "src/mesh/meson.build": "files('a.cpp', 'b.cpp')\n",
        }
        self.assertEqual(self.found(files), [])
        files["src/mesh/b.cpp"] += '#include "mesh/own.h"\n'
        new = "sources that need each other are not listed: src/mesh: a b"
        self.assert_finds(files, f"tests/tidy/circles.txt: {new}")
        listed = {"tests/tidy/circles.txt": "# known\nsrc/mesh: a b\n"}
        self.assertEqual(self.found({**files, **listed}), [])
        old = "no circle any more, or a smaller one: src/mesh: a b"
        self.assert_finds(listed, f"tests/tidy/circles.txt: {old}")

    def test_tests_may_include_anything(self):
        files = {
            "sim/cli/a.h": "",
            "tests/unit/a_test.cpp": '#include "sim/cli/a.h"\n',
            "tests/meson.build": "files('unit/a_test.cpp')\n",
        }
        self.assertEqual(self.found(files), [])

    def test_an_include_that_is_not_there(self):
        found = self.in_error_cpp('#include "fmt/format.h"')
        expected = 'no file "fmt/format.h" here; other libraries take <>'
        self.assertEqual(found, [f"src/base/error.cpp:2: {expected}"])

    def test_a_commented_include_does_not_count(self):
        self.assertEqual(self.in_error_cpp('// #include "mesh/nothing.h"'), [])

    def test_a_heavy_header(self):
        files = {
            "src/mesh/layout.h": "#include <Eigen/Core>\n",
            "src/mesh/layout.cpp": '#include "mesh/layout.h"\n#include <Eigen/Core>\n',
        }
        expected = "<Eigen/Core> does not belong in this header"
        self.assert_finds(files, f"src/mesh/layout.h:1: {expected}")

    def assert_order(self, line, name):
        expected = f"{name}(..): two arguments issue ops, in the compiler's order; name the first"
        self.assert_in_error_cpp(line, expected)

    def test_two_arguments_that_issue_ops(self):
        self.assert_order(
            'DTensor f(Calls& calls) { return g(calls.one("t", {x}), calls.one("t", {y})); }', "g"
        )
        self.assert_order("Gradients f(C& c) { return {g(h(c.calls, a), h(c.calls, b))}; }", "g")

    def test_two_arguments_that_compute_expressions(self):
        self.assert_order("Expression f(const Expression& x) { return g(x * x, -x); }", "g")
        self.assert_order('void f(T x) { g(x.of("aten::cos"), x.of("aten::sin")); }', "g")

    def test_two_arguments_that_call_what_issues_ops(self):
        self.assert_order(
            'void f() { const auto h = [&](T x) { return calls.one("t", {x}); }; g(h(a), h(b)); }',
            "g",
        )

    def test_ops_in_a_set_order(self):
        for line in (
            'void f() { g({calls.one("t", {x}), calls.one("t", {y})}); }',
            'void f() { const DTensor a = calls.one("t", {x}); g(a, calls.one("t", {y})); }',
            'void f() { g(x, [&] { return calls.one("t", {x}); }, [&] { return h(calls); }); }',
            "void f(const Expression& x) { (x * x).minus(y * y); }",
        ):
            self.assertEqual(self.in_error_cpp(line), [], line)

    def test_dead_files(self):
        files = {"src/mesh/b.cpp": "", "src/mesh/c.h": ""}
        self.assertEqual(
            self.found(files),
            [
                "src/mesh/b.cpp: no meson.build lists this file",
                "src/mesh/c.h: nothing includes this header",
            ],
        )

    def test_unsorted_sources(self):
        files = {"src/mesh/b.cpp": "", "src/mesh/meson.build": "files('layout.cpp', 'b.cpp')\n"}
        self.assert_finds(files, "src/mesh/meson.build:1: 'b.cpp' belongs before 'layout.cpp'")

    def test_clocks_and_sleeps(self):
        for call in ("this_thread::sleep_for(x);", "t = steady_clock::now();", "clock();"):
            self.assertIn("no clocks or sleeps", "".join(self.in_error_cpp(call)), call)
        for innocent in ("int clock_count;", "// we never sleep", 'f("sleep");', "my_time(0);"):
            self.assertEqual(self.in_error_cpp(innocent), [], innocent)

    def test_banned_calls(self):
        for call in ("int x = rand();", "std::random_device d;", "system(text);", "std::srand(1);",
                     "for (auto i : std::views::iota(0, 3)) use(i);",
                     "std::ranges::rotate(all, first);"):
            self.assertEqual(len(self.in_error_cpp(call)), 1, call)
        innocents = ("int x = op.rand();", "file_system(x);", "operand();", "ops::rand(x);",
                     "std::rotate(a, b, c);")
        for innocent in (*innocents, "rand({2});"):
            self.assertEqual(self.in_error_cpp(innocent), [], innocent)

    def test_thread_local(self):
        expected = "src/base/error.cpp:2: thread_local: only src/base/rank_context.cpp has one"
        self.assertEqual(self.in_error_cpp("thread_local int x;"), [expected])

    def test_what_only_one_system_has(self):
        for line in ("int d = eventfd(0, 0);", "#include <linux/futex.h>", "#ifdef __linux__",
                     'read("/proc/self/exe");', "accept4(a, b, c, SOCK_CLOEXEC);"):
            self.assertIn("not on every system", "".join(self.in_error_cpp(line)), line)
        for innocent in ("pipe(ends);", "// eventfd", "int eventfds;", "#include <sys/mman.h>"):
            self.assertEqual(self.in_error_cpp(innocent), [], innocent)
        self.assertEqual(self.found({"src/base/program_path.cpp": "#ifdef __APPLE__\n#endif\n"}),
                         ["src/base/program_path.cpp: no meson.build lists this file"])

    def test_backend_names_in_src(self):
        for line in (
            'if (name == "threads") return 1;',
            "threads::World world;",
            "class NcclCommunicator;",
            "int mpi_rank = 0;",
            'f("built without nccl");',
            "ThreadsCommunicator c;",
        ):
            self.assertIn("names the backend", "".join(self.in_error_cpp(line)), line)
        for innocent in (
            "std::thread worker;",
            "int threads = 4;",
            'f("waits for all threads");',
            "int num_threads = 2;",
            "compile(x);",
            "// nccl pads here",
        ):
            self.assertEqual(self.in_error_cpp(innocent), [], innocent)

    def test_a_conditional_for_a_backend(self):
        found = self.in_error_cpp("#ifdef SHARDLAB_HAVE_CUDA\n#endif")
        self.assertEqual(
            found, ["src/base/error.cpp:2: asks for a backend: #ifdef SHARDLAB_HAVE_CUDA"]
        )
        self.assertEqual(self.in_error_cpp("#ifndef NDEBUG\n#endif"), [])

    def test_an_open_end_needs_a_reason(self):
        word = "TO" + "DO"
        self.assertEqual(len(self.in_error_cpp(f"// {word} later")), 1)
        self.assertEqual(self.in_error_cpp(f"// {word}: needs strided shards first"), [])

    def test_a_path_of_one_machine(self):
        for folder in ("tmp", "work", "root"):
            text = f'f("{SLASH}{folder}/x");'
            self.assertIn("a path of one machine", "".join(self.in_error_cpp(text)), text)
        self.assertEqual(self.in_error_cpp(f'#include <a{SLASH}work.h>'), [])

    def test_a_page_that_is_not_there(self):
        found = self.found({
            "src/base/error.cpp": '#include "base/error.h"  // see b.md and c.md\n',
            "src/a/b.md": "",
        })
        self.assertEqual(found, ["src/base/error.cpp:1: there is no page c.md"])

    def test_a_comment_that_opens_with_a_clause(self):
        problem = "a comment opens with What; begin with its subject (1 in src, 0 at most)"
        for mark in ("//", "///", "int x;  ///<"):
            self.assert_in_error_cpp(f"{mark} What a rank holds.", problem)
        self.assert_in_error_cpp("// Pieces. What a rank holds is one.", problem)
        found = self.in_error_cpp("// Pieces of a tensor.\n// What a rank holds is one.")
        self.assertEqual(found, [f"src/base/error.cpp:3: {problem}"])
        subject_first = "// Pieces that a rank holds:\n// What follows continues a comment."
        self.assertEqual(self.in_error_cpp(subject_first), [])
        self.assertEqual(self.in_error_cpp("// Whatever"), [])

    def test_names_of_tests_open_with_their_subject(self):
        path = "tests/unit/mesh/layout_test.cpp"
        problem = f"{path}:1: the name of a test opens with what; begin with its subject"
        for name in ("what a rank holds", "B-1 K-2 what a rank holds", "B-1 cuda: what it holds"):
            self.assertIn(problem, self.found({path: f'TEST_CASE("{name}") {{}}\n'}), name)
        for name in ("B-1 pieces that a rank holds", "choices: where(x)", "offsets"):
            found = self.found({path: f'TEST_CASE("{name}") {{}}\n'})
            self.assertNotIn("opens", " ".join(found), name)

    def test_long_lines(self):
        self.assert_finds({"a.py": "x" * 101 + "\n"}, "a.py:1: 101 columns of 100")
        self.assertEqual(self.found({"a.py": "é" * 100 + "\n"}), [])

    def test_function_length(self):
        short = "".join(body(3) for _ in range(100))
        at_most = {"src/mesh/layout.cpp": short + body(60)}
        self.assertEqual(self.found(at_most), [])
        over = {"src/mesh/layout.cpp": short + body(61)}
        expected = "src/mesh/layout.cpp:301: f has 61 lines, 60 is the most"
        self.assert_finds(over, expected)
        self.assertEqual(self.found({**over, functions.LIST: "src/mesh/layout.cpp f\n"}), [])

    def test_the_list_of_long_functions_only_gets_shorter(self):
        expected = "'src/mesh/layout.cpp f' is not long any more: take it off the list"
        files = {functions.LIST: "src/mesh/layout.cpp f\n"}
        self.assert_finds(files, f"{functions.LIST}: {expected}")

    def test_at_most_one_percent_is_long(self):
        files = {
            "src/mesh/layout.cpp": body(3) + body(61),
            functions.LIST: "src/mesh/layout.cpp f\n",
        }
        expected = "1 of 2 functions have over 60 lines, more than 1%"
        self.assert_finds(files, f"{functions.LIST}: {expected}")

    def in_large_class(self, lines, *entries, head="class Shape", after=""):
        text = f"{head} {{\n" + "  int side;\n" * (lines - 2) + "};\n" + after
        files = {"src/mesh/layout.cpp": text}
        if entries:
            files[walls.LIST] = "\n".join(entries)
        return self.found(files)

    def test_class_length(self):
        entry = "class src/mesh/layout.cpp Shape"
        expected = "src/mesh/layout.cpp:1: class Shape has 301 lines, 300 is the most"
        self.assertEqual(self.in_large_class(300), [])
        self.assertEqual(self.in_large_class(301), [expected])
        self.assertEqual(self.in_large_class(301, head="template <typename T>\nstruct Shape")[0:1],
                         [expected.replace("301", "302")])
        self.assertEqual(self.in_large_class(301, entry), [])
        self.assertEqual(self.in_large_class(400, head="enum Shape"), [])
        self.assertEqual(self.in_large_class(400, head="namespace shapes"), [])

    def test_members_outside_of_a_class_are_its_own(self):
        members = "".join(f"int Shape::f{i}() {{\n" + "  step();\n" * 48 + "}\n"
                          for i in range(10))
        expected = ("src/mesh/layout.cpp:1: class Shape has 650 lines with what is defined outside "
                    "of it, 600 is the most")
        long_file = "file src/mesh/layout.cpp"
        self.assertEqual(self.in_large_class(150, long_file, after=members), [expected])
        self.assertEqual(self.in_large_class(100, after=members), [])
        others = members.replace("Shape", "Other")
        self.assertEqual(self.in_large_class(150, long_file, after=others), [])

    def test_batches_of_sources(self):
        long = {"src/mesh/layout.cpp": "int f();\n" * 5001, walls.LIST: "file src/mesh/layout.cpp"}
        one = "files('base/error.cpp', 'base/rank_context.cpp', 'mesh/layout.cpp')"
        for text in (f"cold_batches += [\n  {one},\n]\n", f"low_rooms += {one}\n",
                     "cold_batches += [\n  files('base/error.cpp', 'base/rank_context.cpp') +\n"
                     "  files('mesh/layout.cpp'),\n]\n"):
            line = 2 if "cold" in text else 1
            self.assert_finds({**long, "src/meson.build": text},
                              f"src/meson.build:{line}: a batch of 5003 lines, 5000 is the most")
        parted = ("cold_batches += [\n  files('base/error.cpp', 'base/rank_context.cpp'),\n"
                  "  files('mesh/layout.cpp'),\n]\n")
        less = {**long, "src/mesh/layout.cpp": "int f();\n" * 5000}
        self.assertEqual(self.found({**less, "src/meson.build": parted}), [])

    def test_file_length(self):
        files = {"src/mesh/layout.cpp": body(40) * 15 + "int f();\n"}
        expected = "src/mesh/layout.cpp: 601 lines, 600 is the most for a file"
        self.assert_finds(files, expected)
        self.assertEqual(self.found({**files, walls.LIST: "file src/mesh/layout.cpp\n"}), [])
        self.assertEqual(self.found({"src/mesh/layout.cpp": body(40) * 15}), [])

    def test_json_in_a_file_that_is_not_listed(self):
        files = {"src/mesh/layout.cpp": "// Json\nint f(const Json& json);\n"}
        self.assert_finds(
            files, "src/mesh/layout.cpp:2: Json belongs in readers and writers of files")
        self.assertEqual(self.found({**files, walls.LIST: "json src/mesh/layout.cpp\n"}), [])
        self.assertEqual(self.found({"src/mesh/layout.cpp": "// Json\nint f(JsonFile);\n"}), [])

    def test_the_list_of_walls_only_gets_shorter(self):
        for entry in ("class src/mesh/layout.cpp Shape", "file src/mesh/layout.cpp",
                      "json src/mesh/layout.cpp"):
            expected = f"'{entry}' keeps to the limit now: take it off the list"
            self.assert_finds({walls.LIST: entry + "\n"}, f"{walls.LIST}: {expected}")

    def test_lines_of_the_product(self):
        # One line each of error.h, error.cpp, rank_context.cpp; comments and blanks do not count.
        files = {"src/mesh/layout.cpp": "// A comment.\n\nint f();\nint g();\n"}
        self.assertEqual(self.found({**files, walls.LIST: "lines 5\n"}), [])
        expected = "the product has 5 lines, 4 is the most: remove some, or give a reason"
        self.assert_finds({**files, walls.LIST: "lines 4\n"}, f"{walls.LIST}: {expected}")

    def uncalled(self, files):
        return [str(problem) for problem in uncalled.problems_of(self.plant(files))]

    def test_a_function_without_a_caller(self):
        files = {
            "src/mesh/layout.h": "int used();\nint idle(int x = f());\nint f();\n",
            "src/mesh/layout.cpp": "int used() { return f(); }\nint f() { return 1; }\n"
            "int idle(int x) { return x; }\nint again() { return used(); }\n",
            "sim/cli/a.cpp": "int main() { return again(); }  // idle()\n",
        }
        known = {"tests/tidy/uncalled.txt": "main: starts\n"}
        expected = "src/mesh/layout.h: nobody in the product calls idle()"
        self.assertEqual(self.uncalled({**files, **known}), [expected])
        known = {"tests/tidy/uncalled.txt": "main: starts\nidle: for tests\nused: for tests\n"}
        expected = "tests/tidy/uncalled.txt:0: 'used' is called, or gone: take it off the list"
        self.assertEqual(self.uncalled({**files, **known}), [expected.replace(":0", "")])

    def test_functions_of_installed_headers_are_for_users(self):
        files = {
            "sim/install/shardlab/a.h": '#include "mesh/layout.h"  // IWYU pragma: export\n',
            "src/mesh/layout.h": '#include "mesh/inner.h"\nint idle();\n',
            "src/mesh/inner.h": "struct Inner {\n  int idle() const;\n  int deep() const;\n};\n",
        }
        expected = "src/mesh/inner.h: nobody in the product calls deep()"
        self.assertEqual(self.uncalled(files), [expected])

    def test_two_types_of_one_name(self):
        space = "namespace shardlab {\n%s\n}  // namespace shardlab\n"
        files = {"src/mesh/one.h": space % "struct Steps {\n};",
                 "src/mesh/other.h": space % "class Steps final : public Base {\n};",
                 "src/mesh/own.h": space % ("namespace own {\nstruct Steps {\n};\n"
                                            "}  // namespace own"),
                 "src/mesh/outer.h": space % "struct Steps::Inner {\n};\nclass Steps;"}
        found = [str(one) for one in patterns.check_types_once(self.plant(files))]
        self.assertEqual(found, ["src/mesh/other.h:2: shardlab::Steps is a type of "
                                 "src/mesh/one.h, too"])


class Functions(unittest.TestCase):
    def names(self, text):
        repository = Tidy.plant(self, {"src/mesh/layout.cpp": text})
        found = functions.functions_of(repository.files["src/mesh/layout.cpp"])
        return [(function.name, function.lines) for function in found]

    def test_what_counts_as_a_function(self):
        text = """
namespace a {
struct S : Base {
  S(int x) : a_{x}, b_(x) {
  }
  explicit S(bool) : a_{1} {}
  int get() const noexcept { return a_; }
  bool operator==(const S&) const = default;
 private:
  auto size() -> int { return 1; }
  int a_ = 0;
  int b_{2};
};
constexpr Row kRows[] = {
    {"x(", f(1)},
};
enum class E { kA };
template <typename T>
T A::twice(T x) {
  auto inner = [&](int y) { return y; };
  if (x) { return inner(x); }
  return x;
}
TEST_CASE("K-1 a claim") {
}
}  // namespace a
"""
        self.assertEqual(
            self.names(text),
            [("S", 2), ("S", 1), ("get", 1), ("size", 1), ("A::twice", 6), ("K-1 a claim", 2)],
        )

    def test_braces_in_strings_and_directives_do_not_count(self):
        text = '#define OPEN {\nint f() { return "}" [0] + \'{\'; }\nint g() {}\n'
        self.assertEqual(self.names(text), [("f", 1), ("g", 1)])


class Fixes(unittest.TestCase):
    def has_fix(self, code, path="src/base/error.cpp", **others):
        files = {path: code, **{name.replace("__", "/") + ".h": text
                                for name, text in others.items()}}
        repository = Tidy.plant(self, files)
        return [site.has_fix for site in fixes.Errors(repository).sites()]

    def test_an_error_with_and_without(self):
        for text, expected in (
            ('fail(ErrorKind::kValue, "size {}", n);', [False]),
            ('fail(ErrorKind::kValue, Fix{"give 1"}, "size {}", n);', [True]),
            ('throw Error(ErrorKind::kRuntime, "gone").with("op", x);', [False]),
            ('throw Error(ErrorKind::kRuntime, "gone").with("op", x).with("fix", y);', [True]),
            ('Error error(ErrorKind::kValue, "a");\n  error.with("fix", x);', [True]),
            ('Error error(ErrorKind::kValue, "a");\n  throw error;', [False]),
            ('if (bad) fail(ErrorKind::kValue, "a");\n  g("fix", Fix{"b"});', [False]),
        ):
            self.assertEqual(self.has_fix("void f() {\n  " + text + "\n}\n"), expected, text)

    def test_what_does_not_count(self):
        for text in (
            'fail(ErrorKind::kInternal, "a");',
            'fail(ErrorKind::kAssert, "a");',
            "throw Error(*failure);",
            "throw;",
            '// fail(ErrorKind::kValue, "a");',
            "region.fail(text);",
        ):
            self.assertEqual(self.has_fix("void f() {\n  " + text + "\n}\n"), [], text)

    def test_the_calls_of_a_helper_count_in_its_place(self):
        calls = "void f() {\n  refuse(1);\n  refuse(2);\n}\n"
        helper = '[[noreturn]] void refuse(int n) {\n  fail(ErrorKind::kValue, {}"a", n);\n}\n'
        self.assertEqual(self.has_fix(helper.replace("{}", "") + calls), [False, False])
        self.assertEqual(self.has_fix(helper.replace("{}", 'Fix{"b"}, ') + calls), [True, True])

    def test_a_helper_that_is_given_the_fix(self):
        code = """
[[noreturn]] void refuse(std::string summary, std::string fix = "") {
  Error error(ErrorKind::kValue, std::move(summary));
  if (!fix.empty()) error.with("fix", fix);
  throw error;
}
void f() {
  refuse("a");
  refuse("a", "b");
  refuse("a", "");
}
"""
        self.assertEqual(self.has_fix(code), [False, True, False])

    def test_a_helper_of_a_header_that_is_not_included(self):
        header = '[[noreturn]] inline void refuse() {\n  fail(ErrorKind::kValue, "a");\n}\n'
        calls = "void f() {\n  refuse();\n}\n"
        self.assertEqual(self.has_fix(calls, src__base__a=header), [])
        included = '#include "base/a.h"\n' + calls
        self.assertEqual(self.has_fix(included, src__base__a=header), [False])

    def test_the_share_only_rises(self):
        files = {"src/base/error.cpp": 'void f() {\n  fail(ErrorKind::kValue, "a");\n}\n'}
        found = [str(problem) for problem in fixes.check_share(Tidy.plant(self, files))]
        self.assertEqual(len(found), 1)
        self.assertIn("0.0% of the errors have a fix", found[0])


class Readme(unittest.TestCase):
    def found(self, text):
        files = {"README.md": text, "docs.md": "# One\n## Mixed `tensors`, twice\n## One\n"}
        return [str(problem) for problem in readme.problems_of(Tidy.plant(self, files))]

    def test_links_that_lead_somewhere(self):
        text = "# Top\n[a](docs.md) [b](docs.md#mixed-tensors-twice) [c](#top) [d](docs.md#one-1)"
        self.assertEqual(self.found(text + " [e](https://example.org) [f](src/)"), [])

    def test_links_that_lead_nowhere(self):
        self.assertEqual(self.found("[a](gone.md)"), ["README.md:1: no file gone.md"])
        self.assertEqual(self.found("\n[a](#gone)"), ["README.md:2: no heading for #gone"])
        self.assertEqual(
            self.found("[a](docs.md#two)"), ["README.md:1: no heading for docs.md#two"]
        )

    def test_messages_that_send_their_reader_somewhere(self):
        for heading, found in (("mixed-tensors-twice", []), ("mixed", ["no heading"])):
            files = {"docs.md": "## Mixed tensors, twice\n",
                     "src/base/a.cpp": f'const char* fix = "see docs.md#{heading}";\n'}
            problems = list(readme.problems_of(Tidy.plant(self, files)))
            self.assertEqual([str(problem).split(": ")[1].split(" for")[0] for problem in problems],
                             found)

    def test_links_in_code_do_not_count(self):
        self.assertEqual(self.found("```\n[a](gone.md)\n```\n`f[1](x)`"), [])

    def test_scenarios_in_commands(self):
        text = "```\n{}\n```\n"
        for command in ("scenarios/run smoke/a", "$ build/shardlab run scenarios/smoke/a.toml"):
            expected = f"README.md:2: no scenario {command.split()[-1]}"
            self.assertEqual(self.found(text.format(command + "   # why")), [expected])
        for innocent in ("scenarios/run", "shardlab test scenarios --why y", "ls scenarios/run"):
            files = {"README.md": text.format(innocent), "scenarios/b.toml": ""}
            self.assertEqual(list(readme.problems_of(Tidy.plant(self, files))), [])

    def test_the_first_page_is_short(self):
        self.assertEqual(self.found("a\n" * 160), [])
        self.assertEqual(self.found("a\n" * 161), ["README.md:161: 161 lines of 160"])

    def test_examples_are_built_by_a_test(self):
        frame = 'void f() {\n#include <step.inc>\n}\n'
        files = {"README.md": "```cpp step\ng();\n```\n", "tests/install/a.cpp": frame}
        self.assertEqual(list(readme.problems_of(Tidy.plant(self, files))), [])
        for fence in ("```cpp\n", "```cpp other\n"):
            files["README.md"] = f"{fence}g();\n```\n"
            found = [str(problem) for problem in readme.problems_of(Tidy.plant(self, files))]
            self.assertEqual(found, ["README.md:1: no test builds this C++ example"])


class Commits(unittest.TestCase):
    def git(self, *arguments):
        who = ("-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *who, *arguments], cwd=self.root, capture_output=True, encoding="utf-8"
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = temporary.name
        self.git("init", "-q")
        self.git("commit", "-q", "--allow-empty", "-m", "x" * 99)
        self.base = self.git("rev-parse", "HEAD")

    def test_a_subject_with_a_character_too_many(self):
        self.git("commit", "-q", "--allow-empty", "-m", "a" * 72 + "\n\n" + "y" * 90)
        self.assertEqual(list(commits_test.long_subjects(self.root, self.base)), [])
        self.git("commit", "-q", "--allow-empty", "-m", "b" * 73)
        (found,) = commits_test.long_subjects(self.root, self.base)
        self.assertRegex(found, "^[0-9a-f]+ has 73 characters of 72: b+$")

    def test_a_history_without_the_first_commit(self):
        with self.assertRaisesRegex(commits_test.NotHere, "is not in this history"):
            list(commits_test.long_subjects(self.root, "0" * 40))


if __name__ == "__main__":
    unittest.main()
