#include "sim/scenario/scenario_file.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "tests/unit/scenario/scenario_text.h"

using namespace shardlab;
using test::file_of;
using test::scenario_of;

namespace {

std::string report_of(std::string text, const std::vector<std::string>& settings = {}) {
  try {
    scenario_of(std::move(text), settings);
    return "";
  } catch (const ScenarioError& error) {
    return error.report();
  }
}

constexpr const char* kMegatron = R"toml(title = "Megatron MLP, two layers"
about = "Column then row parallel."
seed = 7
world = 9
[mesh]
tp = 4
dp = 2
[params]
layers = 2
hidden = 16
name = "mlp"
[inputs]
x = "f32[8@dp, hidden]"
w = { type = "f32[hidden, 4*hidden@(dp,tp)]", init = "randn(1/hidden)", scale = 2 }
i = { type = "i64[8]", init = "randint(0, hidden)" }
v = { type = "f32[2,2@tp]{max:dp}", values = [[1, 2.5], [3, -4]] }
b = { type = "bool[2]", values = [true, false] }
n = { type = "f64[]", init = "full(layers)", requires_grad = true }
[program]
code = """
for l in range(layers):
    x = x @ w
y = x.redistribute(tp=R)
"""
[expect]
y = "f32[8@dp, hidden]"
"w.grad" = "f32[hidden, 4*hidden@tp]{sum:dp}"
collectives = { all_reduce = "<= layers * dp", all_gather = 1 }
bytes = "<= 1.5 MiB"
grads = ["x"]
implicit = "forbid"
verify = "outputs"
tolerance = { f32 = 1e-5 }
error = { kind = "Runtime", contains = "different meshes" }
verdict = "deadlock"
[topology]
tp = { gbps = 400, us = 1.5 }
[weights]
all_gather = 3
)toml";

}  // namespace

TEST_CASE("B-62 a file is read as written; mesh dims keep the order of the file") {
  const Scenario scenario = scenario_of(kMegatron);
  CHECK(scenario.title == "Megatron MLP, two layers");
  CHECK(scenario.about == "Column then row parallel.");
  CHECK(scenario.seed == 7);
  CHECK(scenario.world == 9);
  REQUIRE(scenario.mesh.dims.size() == 2);
  CHECK(scenario.mesh.dims[0].name == "tp");
  CHECK(scenario.mesh.dims[0].size == 4);
  CHECK(scenario.mesh.dims[1].name == "dp");
  CHECK(scenario.mesh.size == 8);
  CHECK_FALSE(scenario.mesh.ranks.has_value());
  REQUIRE(scenario.params.size() == 3);
  CHECK(scenario.params[0].first == "layers");
  CHECK(scenario.params[2].second == Literal(std::string("mlp")));
  CHECK(scenario.program->body.size() == 2);
  REQUIRE(scenario.topology.size() == 1);
  CHECK(scenario.topology[0].gbps == 400);
  CHECK(scenario.topology[0].us == 1.5);
  CHECK(scenario.weights == StepWeights{.all_gather = 3});
}

TEST_CASE("B-62 inputs: types with evaluated sizes, and how their elements come about") {
  const Scenario scenario = scenario_of(kMegatron);
  REQUIRE(scenario.inputs.size() == 6);
  const ScenarioInput& x = scenario.inputs[0];
  CHECK(x.type.text->text() == "f32[8@dp, 16]");
  CHECK(x.type.dtype == DType::kF32);
  CHECK(
      test::scenario_of("[mesh]\nx = 2\n[inputs]\na = \"bfloat16[4@x]\"\n").inputs[0].type.dtype ==
      DType::kBF16);
  CHECK(x.type.sizes == std::vector<std::int64_t>{8, 16});
  CHECK(x.recipe.init == "randn");
  CHECK(x.requires_grad);  // listed in grads
  const ScenarioInput& w = scenario.inputs[1];
  CHECK(w.type.text->text() == "f32[16, 64@(dp,tp)]");
  CHECK(w.recipe.arguments == std::vector<Scalar>{0.0625});
  CHECK(w.recipe.scale == 2);
  CHECK_FALSE(w.requires_grad);
  const ScenarioInput& i = scenario.inputs[2];
  CHECK(i.recipe.init == "randint");
  CHECK(i.recipe.arguments == std::vector<Scalar>{0, 16});
  CHECK_FALSE(i.requires_grad);
  CHECK(scenario.inputs[3].recipe.values == std::vector<Scalar>{1, 2.5, 3, -4});
  CHECK(scenario.inputs[4].recipe.values == std::vector<Scalar>{1, 0});
  CHECK(scenario.inputs[5].recipe.init == "full");
  CHECK(scenario.inputs[5].recipe.arguments == std::vector<Scalar>{2});
  CHECK(scenario.inputs[5].requires_grad);
  CHECK(scenario.inputs[5].type.sizes.empty());
}

TEST_CASE("B-62 expectations") {
  const Scenario scenario = scenario_of(kMegatron);
  const Expectation& expect = scenario.expect;
  REQUIRE(expect.types.size() == 2);
  CHECK(expect.types[0].full_name() == "y");
  CHECK(expect.types[1].full_name() == "w.grad");
  CHECK(expect.types[1].of_gradient);
  CHECK(expect.types[1].type.text->text() == "f32[16, 64@tp]{sum:dp}");
  REQUIRE(expect.collectives.has_value());
  const Bound& reduces = expect.collectives->at(0).second;
  CHECK(expect.collectives->at(0).first == "all_reduce");
  CHECK(reduces.holds(std::int64_t{4}));
  CHECK(reduces.holds(std::int64_t{0}));
  CHECK_FALSE(reduces.holds(std::int64_t{5}));
  CHECK(reduces.text == "<= layers * dp");
  CHECK(expect.collectives->at(1).second.holds(std::int64_t{1}));
  CHECK_FALSE(expect.collectives->at(1).second.holds(std::int64_t{0}));
  REQUIRE(expect.bytes.has_value());
  CHECK(expect.bytes->holds(std::int64_t{1572864}));
  CHECK_FALSE(expect.bytes->holds(std::int64_t{1572865}));
  CHECK(expect.gradients.at(0).name == "x");
  CHECK(expect.implicit == ImplicitRedistribution::kForbid);
  CHECK(expect.verify == Verify::kOutputs);
  CHECK(expect.tolerance.at(0).first == DType::kF32);
  CHECK(expect.error->kind == ErrorKind::kRuntime);
  CHECK(expect.error->contains == "different meshes");
  CHECK(expect.verdict == ExpectedVerdict::kDeadlock);
}

TEST_CASE("B-62 places in the program and in types are those of the file") {
  const Scenario scenario = scenario_of(kMegatron);
  const ast::Statement& last = scenario.program->body.at(1);
  CHECK(scenario.program->source->at(last.span.begin) == "t.toml:23:1");
  const TypeText& type = scenario.inputs[1].type;  // "f32[16, 64@..." points at 4*hidden
  CHECK(type.text->at(8) == "t.toml:14:27");
  CHECK(type.text->at(10) == "t.toml:14:35");  // '@'
}

TEST_CASE("B-62 places survive escapes, CRLF and line-ending backslashes") {
  CHECK(
      report_of("[mesh]\nx = 2\n[program]\ncode = \"a = 1\\n\\u0062 = $\"\n").find("t.toml:4:25") !=
      std::string::npos);
  CHECK(report_of("[mesh]\r\nx = 2\r\n[program]\r\ncode = \"\"\"\r\na = 1\r\nb = $\r\n\"\"\"\r\n")
            .find("t.toml:6:5\n      6 | b = $\n        |     ^") != std::string::npos);
  CHECK(report_of("[mesh]\nx = 2\n[program]\ncode = \"\"\"\na = 1 + \\\n   $\n\"\"\"\n")
            .find("t.toml:6:4") != std::string::npos);
  CHECK(report_of("[mesh]\nx = 2\n[program]\ncode = '''\na = 1\nb = $'''\n").find("t.toml:6:5") !=
        std::string::npos);
}

TEST_CASE("B-62 settings replace values of the file, and the last one counts") {
  const Scenario scenario = scenario_of(
      kMegatron, {"mesh.tp=1", "params.hidden=32", "hidden=64", "seed=3", "world=20", "name=a"});
  CHECK(scenario.mesh.dims[0].size == 1);
  CHECK(scenario.mesh.size == 2);
  CHECK(scenario.inputs[0].type.text->text() == "f32[8@dp, 64]");
  CHECK(scenario.seed == 3);
  CHECK(scenario.world == 20);
  CHECK(scenario.params[2].second == Literal(std::string("a")));
}

TEST_CASE("B-62 the matrix gives every combination, first key slowest; a setting fixes its key") {
  const std::string text =
      "[mesh]\ntp = 8\n[params]\nhidden = 1\n[matrix]\n\"mesh.tp\" = [1, 2]\nhidden = [16, 17]\n"
      "[inputs]\nx = \"f32[hidden@tp]\"\n";
  const ScenarioFile file = file_of(text);
  std::vector<std::string> found;
  for (const MatrixPoint& point : file.points()) {
    const Scenario scenario = file.at(point);
    found.push_back(point.name + " -> " + scenario.inputs[0].type.text->text() + " on " +
                    std::to_string(scenario.mesh.size));
  }
  CHECK(found == std::vector<std::string>{
                     "mesh.tp=1,hidden=16 -> f32[16@tp] on 1",
                     "mesh.tp=1,hidden=17 -> f32[17@tp] on 1",
                     "mesh.tp=2,hidden=16 -> f32[16@tp] on 2",
                     "mesh.tp=2,hidden=17 -> f32[17@tp] on 2",
                 });
  const ScenarioFile fixed = file_of(text, {"hidden=5"});
  REQUIRE(fixed.points().size() == 2);
  CHECK(fixed.points()[1].name == "mesh.tp=2");
  CHECK(fixed.at(fixed.points()[1]).inputs[0].type.text->text() == "f32[5@tp]");
}

TEST_CASE("B-62 ranks: any order, a subset of the world, nested like the mesh") {
  const Scenario scenario = scenario_of("[mesh]\nx = 2\ny = 2\nranks = [[5, 1], [0, 3]]\n");
  CHECK(*scenario.mesh.ranks == std::vector<std::int64_t>{5, 1, 0, 3});
  CHECK(scenario.world == 6);
  CHECK(report_of("[mesh]\nx = 2\nranks = [0, 0]\n").find("rank 0 is in the mesh twice") !=
        std::string::npos);
  CHECK(report_of("[mesh]\nx = 2\nranks = [0]\n").find("1 entries along mesh dim 'x' of size 2") !=
        std::string::npos);
  CHECK(report_of("[mesh]\nx = 2\nranks = [0, -1]\n").find("rank -1 does not exist") !=
        std::string::npos);
  CHECK(report_of("world = 3\n[mesh]\nx = 2\nranks = [0, 3]\n")
            .find("the mesh needs 4 ranks and the world has 3") != std::string::npos);
}

TEST_CASE("B-62 each fault of a file has its own message and place") {
  struct Row {
    const char* text;
    const char* says;
    const char* at;
  };
  const Row rows[] = {
      {"", "a scenario without [mesh]", ":1:1"},
      {"[mesh]\n", "[mesh] without a mesh dim", ":1:2"},
      {"[mesh\nx = 2\n", "this is not TOML", ":1:"},
      {"[mesh]\nx = 2\nx = 3\n", "this is not TOML", ":3:"},
      {"[mehs]\nx = 2\n", "unknown key 'mehs' in the file", ":1:2"},
      {"[mehs]\nx = 2\n", "did you mean 'mesh'?", ":1:2"},
      {"[mesh]\nx = 0\n", "mesh dim 'x' has size 0", ":2:5"},
      {"[mesh]\nx = -3\n", "mesh dim 'x' has size -3", ":2:5"},
      {"[mesh]\nx = \"2\"\n", "expected an integer for 'x', found a string", ":2:5"},
      {"[mesh]\nx = 9223372036854775807\ny = 2\n", "a mesh of 1.84e+19 ranks", ":3:5"},
      {"[mesh]\n\"a b\" = 2\n", "'a b' cannot be the name of a mesh dim", ":2:1"},
      {"[mesh]\nfor = 2\n", "'for' cannot be the name of a mesh dim", ":2:1"},
      {"title = 1\n[mesh]\nx = 2\n", "expected a string for 'title', found an integer", ":1:9"},
      {"seed = -1\n[mesh]\nx = 2\n", "the seed is -1", ":1:8"},
      {"world = 1\n[mesh]\nx = 2\n", "the mesh needs 2 ranks and the world has 1", ":1:9"},
      {"[mesh]\nx = 2\n[params]\nx = 1\n", "'x' is both a mesh dim and a param", ":2:5"},
      {"[mesh]\nx = 2\n[params]\nd = 1979-05-27\n", "a date or a time", ":4:5"},
      {"[mesh]\nx = 2\n[[fault]]\nkind = \"kill\"\n", "unknown key 'fault' in the file", ":3:3"},
      {"[mesh]\nx = 2\n[[rule]]\n", "[[rule]] needs op and rule", ":3:1"},
      {"[mesh]\nx = 2\n[program]\ncod = \"\"\n", "unknown key 'cod' in [program]", ":4:1"},
      {"[mesh]\nx = 2\n[program]\n", "[program] without code", ":3:2"},
      {"[mesh]\nx = 2\n[matrix]\ny = [1]\n", "nothing in this scenario is called 'y'", ":4:6"},
      {"[mesh]\nx = 2\n[matrix]\nmesh.x = [1]\n", "a table for 'mesh' in [matrix]", ":4:1"},
      {"[mesh]\nx = 2\n[matrix]\n\"mesh.x\" = []\n", "an empty list in [matrix]", ":4:12"},
      {"[mesh]\nx = 2\n[matrix]\n\"mesh.x\" = [1.5]\n", "'mesh.x' must be an integer, not '1.5'",
       ":4:13"},
      {"[mesh]\nx = 2\n[topology]\ny = { gbps = 1 }\n", "unknown key 'y' in [topology]", ":4:1"},
      {"[mesh]\nx = 2\n[topology]\nx = { gps = 1 }\n", "did you mean 'gbps'?", ":4:7"},
      {"[mesh]\nx = 2\n[topology]\nx = { us = 0 }\n", "us must be positive", ":4:12"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.text));
    const std::string report = report_of(row.text);
    CAPTURE(report);
    CHECK(report.find(row.says) != std::string::npos);
    CHECK(report.find(std::string("t.toml") + row.at) != std::string::npos);
  }
}

TEST_CASE("B-62 each fault of an input has its own message and place") {
  struct Row {
    const char* input;
    const char* says;
    const char* at;
  };
  const Row rows[] = {
      {"w = 3", "expected a type string or a table for 'w', found an integer", ":6:5"},
      {"w = \"f32\"", "'f32' is not a type", ":6:6"},
      {"w = \"f31[2]\"", "unknown dtype 'f31'", ":6:6"},
      {"w = \"[2]\"", "the type of an input needs a dtype", ":6:6"},
      {"w = \"f32[2\"", "'[' is never closed", ":6:9"},
      {"w = \"f32[2,]\"", "a tensor dim has no size", ":6:1"},
      {"w = \"f32[@x]\"", "a tensor dim has no size", ":6:10"},
      {"w = \"f32[8@x, hiden]\"", "unknown name 'hiden'", ":6:15"},
      {"w = \"f32[8@x, hiden]\"", "did you mean 'hidden'?", ":6:15"},
      {"w = \"f32[8@y]\"", "y", ":6:12"},
      {"w = \"f32[8@x, 8@x]\"", "x", ":6:"},
      {"w = \"f32[8]{summ:x}\"", "summ", ":6:13"},
      {"w = \"f32[8]{sum:x\"", "", ":6:"},
      {"w = \"f32[8@(x,x)]\"", "x", ":6:"},
      {"w = \"f32[8]]\"", "", ":6:"},
      {"w = \"f32[hidden - 17]\"", "the size of a tensor dim is -1; it must be 0 or more", ":6:10"},
      {"w = \"f32[hidden / 2]\"", "expected an integer, found 8.0", ":6:10"},
      {"w = \"f32[hidden // 0]\"", "the divisor is zero", ":6:10"},
      {"w = \"f32[2**99]\"", "2 ** 99 does not fit into 64 bits", ":6:10"},
      {"w = \"f32[2 + ]\"", "expected an expression", ":6:14"},
      {"w = \"i64[2]\"", "input 'w' is i64 and says no values", ":6:1"},
      {"w = { init = \"ones\" }", "input 'w' has no type", ":6:1"},
      {"w = { type = \"f32[2]\", initt = \"ones\" }", "unknown key 'initt' in input 'w'", ":6:24"},
      {"w = { type = \"f32[2]\", init = \"one\" }", "did you mean 'ones'?", ":6:32"},
      {"w = { type = \"f32[2]\", init = \"full\" }", "full takes 1 arguments, not 0", ":6:32"},
      {"w = { type = \"f32[2]\", init = \"randint(3, 3)\" }", "randint: low must be less than high",
       ":6:32"},
      {"w = { type = \"i32[2]\", init = \"randn\" }", "randn needs a floating dtype", ":6:32"},
      {"w = { type = \"f32[2]\", init = \"eye\" }", "eye needs a matrix", ":6:32"},
      {"w = { type = \"f32[2]\", init = \"ones\", file = \"a\" }", "both 'init' and 'file'",
       ":6:39"},
      {"w = { type = \"f32[2]\", file = \"no/such.npy\" }", "no/such.npy cannot be read", ":6:1"},
      {"w = { type = \"f32[2]\", values = [1] }", "1 values along tensor dim 0 of size 2", ":6:33"},
      {"w = { type = \"f32[2]\", values = [1, \"a\"] }", "expected a number for 'values'", ":6:37"},
      {"w = { type = \"f32[1,1]\", values = [1] }", "expected an array for tensor dim 1", ":6:36"},
      {"w = { type = \"i64[1]\", values = [1.5] }", "a value is a float, the input's dtype is i64",
       ":6:34"},
      {"w = { type = \"i64[1]\", values = [1], requires_grad = true }", "requires a gradient",
       ":6:54"},
      {"rank = \"f32[2]\"", "'rank' already means something in programs", ":6:1"},
      {"hidden = \"f32[2]\"", "'hidden' is both an input and a param", ":6:1"},
      {"\"a.b\" = \"f32[2]\"", "'a.b' cannot be the name of an input", ":6:1"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.input));
    const std::string report = report_of(
        std::string("[mesh]\nx = 2\n[params]\nhidden = 16\n[inputs]\n") + row.input + "\n");
    CAPTURE(report);
    CHECK(report.find(row.says) != std::string::npos);
    CHECK(report.find(std::string("t.toml") + row.at) != std::string::npos);
  }
}

TEST_CASE("B-62 each fault of [expect] has its own message and place") {
  struct Row {
    const char* expect;
    const char* says;
    const char* at;
  };
  const Row rows[] = {
      {"z = \"f32[2]\"", "the program has no value 'z'", ":8:1"},
      {"\"z.grad\" = \"f32[2]\"", "the program has no value 'z'", ":8:1"},
      {"a.grad = \"f32[2]\"", "write \"a.grad\" in quotes", ":8:1"},
      {"colectives = {}", "did you mean 'collectives'?", ":8:1"},
      {"verfy = \"none\"", "did you mean 'verify'?", ":8:1"},
      {"collectives = { allreduce = 1 }", "did you mean 'all_reduce'?", ":8:17"},
      {"collectives = { all_reduce = 1.5 }", "expected an integer or a string", ":8:30"},
      {"collectives = { all_reduce = \"<= lyers\" }", "unknown name 'lyers'", ":8:34"},
      {"bytes = \"<= \"", "expected an expression", ":8:"},
      {"grads = [\"q\"]", "the program has no value 'q'", ":8:10"},
      {"grads = \"a\"", "expected an array for 'grads', found a string", ":8:9"},
      {"implicit = \"forbidden\"", "did you mean 'forbid'?", ":8:12"},
      {"verify = \"all\"", "'all' is not a value of 'verify'", ":8:10"},
      {"tolerance = { f31 = 1 }", "unknown key 'f31' in tolerance", ":8:15"},
      {"tolerance = { f32 = -1 }", "a finite number of 0 or more", ":8:21"},
      {"error = { kind = \"Rutime\" }", "did you mean 'Runtime'?", ":8:18"},
      {"error = \"Runtime\"", "expected a table for 'error'", ":8:9"},
      {"verdict = \"hang\"", "'hang' is not a value of 'verdict'", ":8:11"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.expect));
    const std::string report = report_of(
        std::string("[mesh]\nx = 2\n[inputs]\na = \"f32[2]\"\n[program]\ncode = \"y = a\"\n"
                    "[expect]\n") +
        row.expect + "\n");
    CAPTURE(report);
    CHECK(report.find(row.says) != std::string::npos);
    CHECK(report.find(std::string("t.toml") + row.at) != std::string::npos);
  }
}

TEST_CASE("B-62 settings that nothing takes are refused on the command line's text") {
  struct Row {
    const char* setting;
    const char* says;
  };
  const Row rows[] = {
      {"hidden", "'hidden' is not a setting"},
      {"=3", "'=3' is not a setting"},
      {"hiden=3", "did you mean 'hidden'?"},
      {"mesh.pp=3", "did you mean 'mesh.tp'?"},
      {"mesh.tp=two", "'mesh.tp' must be an integer, not 'two'"},
      {"mesh.tp=0", "mesh dim 'tp' has size 0"},
      {"seed=1.5", "'seed' must be an integer, not '1.5'"},
      {"hidden=wide", "'hidden' must be a number, not 'wide'"},
      {"name=3", "'name' must be a string, not '3'"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.setting));
    std::string report;
    try {
      scenario_of(kMegatron, {row.setting});
    } catch (const ScenarioError& error) {
      report = error.report();
    }
    CAPTURE(report);
    CHECK(report.find(row.says) != std::string::npos);
    CHECK(report.find("--set:1:1") != std::string::npos);
  }
}

TEST_CASE("B-62 a mesh that memory does not hold says how much it would take") {
  const Scenario scenario = scenario_of("[mesh]\ndp = 2\ntp = 1000000\n");
  CHECK_NOTHROW(check_memory(scenario, {.bytes_per_rank = 1, .available_bytes = 2000000}));
  std::string report;
  try {
    check_memory(scenario, {.bytes_per_rank = 65536, .available_bytes = std::int64_t{8} << 30});
  } catch (const ScenarioError& error) {
    report = error.report();
  }
  CHECK(report ==
        "error: 2000000 ranks would take 122 GiB before they hold any data; 8 GiB are available\n"
        "  at          t.toml:3:6\n"
        "      3 | tp = 1000000\n"
        "        |      ^\n"
        "  fix         use at most 131072 ranks");
}

TEST_CASE("B-62 a file that cannot be read is an error of its own") {
  std::string report;
  try {
    ScenarioFile::open("no/such/file.toml", {});
  } catch (const Error& error) {
    report = error.text();
  }
  CHECK(report.starts_with("no/such/file.toml: No such file or directory\n"));
}

TEST_CASE("B-62 planner names who plans redistributions") {
  CHECK(scenario_of("planner = \"bytes\"\n[mesh]\nx = 2\n").planner == PlannerKind::kBytes);
  CHECK_FALSE(scenario_of("[mesh]\nx = 2\n").planner.has_value());
  CHECK(report_of("planner = \"fast\"\n[mesh]\nx = 2\n").find("greedy, graph or bytes") !=
        std::string::npos);
}

TEST_CASE("B-62 backend names who moves the bytes where the user names nobody") {
  CHECK(scenario_of("backend = \"fake\"\n[mesh]\nx = 2\n").backend == "fake");
  CHECK(scenario_of("[mesh]\nx = 2\n").backend == "threads");
  CHECK(report_of("backend = \"mpi\"\n[mesh]\nx = 2\n").find("known: threads, fake") !=
        std::string::npos);
}

TEST_CASE("B-62 a program may stand in a file beside the scenario") {
  const TemporaryFolder folder;
  const std::string step = folder.write("step.py", "# two lines\nb = a + 1\n");
  const std::string path = folder.write("s.toml",
                                        "[mesh]\nx = 2\n[inputs]\na = \"f32[3@x]\"\n[program]\n"
                                        "file = \"step.py\"\n[expect]\nb = \"f32[3@x]\"\n");
  const ScenarioFile file = ScenarioFile::open(path, {});
  const Scenario scenario = file.at(file.points()[0]);
  CHECK(scenario.program->source->file() == step);
  CHECK(scenario.program->source->line(2) == "b = a + 1");
}
