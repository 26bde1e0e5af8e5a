// [expect] of graphs: right, and planted wrong.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "dispatch/all_ops.h"
#include "sim/graph/capture.h"
#include "sim/judge/scenario_run.h"
#include "tests/unit/scenario/scenario_text.h"
#include "trace/graph_json.h"

namespace shardlab {
namespace {

const char* const kHead = R"(
[mesh]
dp = 2
tp = 2
[inputs]
x = "f32[7@dp, 6]"
w = "f32[6, 5@tp]"
)";
const char* const kProgram = "y = x @ w\nz = y.redistribute(tp=R)\n";

Scenario scenario(const std::string& code, const std::string& expect) {
  return test::scenario_of(
      fmt::format("{}[program]\ncode = \"\"\"\n{}\"\"\"\n[expect]\n{}\n", kHead, code, expect));
}

// "met", or the message of the first expectation that was not.
std::string answer(const std::string& code, const std::string& expect,
                   const std::string& backend = "threads") {
  ScenarioOptions options;
  options.backend = backend;
  const ScenarioResult result = run_scenario(scenario(code, expect), all_ops(), options);
  for (const ExpectationReport& report : result.judgement.expectations) {
    if (!report.met) return report.what + ": " + report.text;
  }
  return result.met() ? "met" : "failed";
}

std::string graph_file(const std::string& code) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("shardlab_{}.graph", getpid()))
          .string();
  std::ofstream file(path);
  for (const ProgramGraph& graph : capture_scenario(scenario(code, ""), all_ops(), {}).graphs) {
    file << graph_json(graph);
  }
  return path;
}

TEST_CASE("T-63 the number of different graphs, and of breaks, are what is expected") {
  for (const char* backend : {"threads", "fake"}) {
    CHECK(answer(kProgram, "graphs = 1\ngraph_breaks = 0", backend) == "met");
    CHECK(answer(kProgram, "graphs = 2", backend) == "graphs: expected 2, got 1");
    CHECK(answer("if rank == 3:\n    y = x * 2\n", "graphs = \"<= 1\"", backend) ==
          "graphs: expected <= 1, got 2");
  }
  CHECK(answer("a = x.sum().item()\n", "graph_breaks = 1") == "met");
  CHECK(answer("a = x.sum().item()\n", "graph_breaks = 0") == "graph_breaks: expected 0, got 1");
  // The def's graph alone, which prints, and none of the program's.
  const char* const kTraced = "def f(a):\n    print('here')\n    return a * 2\ny = trace(f)(x)\n";
  CHECK(answer(kTraced, "graph_breaks = 1") == "met");
  CHECK(answer(kTraced, "graph_breaks = 0") == "graph_breaks: expected 0, got 1");
}

// Values that a program frees are gone, with and without a request for its graph.
TEST_CASE("T-63 whoever asks for graphs changes no figure of memory") {
  const std::string code =
      "y = x @ w\nfor i in range(6):\n    y = y * 2\nt = (y + y).sum()\nt.item()\n";
  const auto peaks = [&](const std::string& expect) {
    const ScenarioResult result = run_scenario(scenario(code, expect), all_ops(), {});
    std::vector<std::int64_t> bytes;
    for (const PeakReport& peak : result.run.memory.peaks) bytes.push_back(peak.bytes);
    return bytes;
  };
  CHECK(peaks("graph_breaks = 1") == peaks(""));
  CHECK(peaks("").size() == 4);
}

TEST_CASE("T-63 the graph of a program is that of a file, wherever its lines stand") {
  const std::string path = graph_file(kProgram);
  const std::string expect = fmt::format("graph = \"{}\"", path);
  CHECK(answer(kProgram, expect) == "met");
  CHECK(answer("# moved\n\n" + std::string(kProgram), expect) == "met");
  const std::string changed = answer("y = x @ w\nz = y.redistribute(dp=R)\n", expect);
  CHECK(changed.find("node 3 of all ranks: expected ") != std::string::npos);
  CHECK(changed.find("redistribute(%2, to=f32[7, 5@tp])") != std::string::npos);
  CHECK(answer(kProgram + std::string("z = z * 2\n"), expect).find("(ends)") != std::string::npos);
  CHECK(answer(kProgram, "graph = \"/no/such/file.graph\"").starts_with("graph: /no/such/file"));
  std::ofstream(path) << "{\"k\":\"program\"}\n";
  CHECK(answer(kProgram, expect).find("line 1 of the graph") != std::string::npos);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace shardlab
