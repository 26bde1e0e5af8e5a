// program_runner.h - runs a text on simulated ranks and keeps their output.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "autograd/autograd.h"
#include "comm/device_mesh.h"
#include "dispatch/all_ops.h"
#include "kernels/cpu_kernels.h"
#include "plan/plan.h"
#include "propagate/propagator.h"
#include "sim/language/run/interpreter.h"
#include "sim/run/reference_calls.h"
#include "sim/world/world.h"
#include "tensor/cpu_device.h"
#include "tests/unit/scenario/scenario_text.h"

namespace doctest {
template <>
struct StringMaker<std::vector<std::string>> {
  static String convert(const std::vector<std::string>& lines) {
    std::string out;
    for (const std::string& line : lines) out += "\n    " + line;
    return out.c_str();
  }
};
}  // namespace doctest

namespace shardlab::test {

struct PrintedLines : ValueSink {
  void assigned(const std::string&, std::int64_t, const Value&, const Where&) override {}
  void printed(const std::string& line) override { lines.push_back(line); }
  std::vector<std::string> lines;
};

struct ProgramOutcome {
  std::vector<std::vector<std::string>> lines;  ///< per rank
  std::vector<MemoryAccount> accounts;          ///< per rank
  std::string error;
};

/// Runs `code` on tp x dp ranks (2 x 2 by default). `mesh` is the text below [mesh], or, if it has
/// that line, the text before the program.
inline ProgramOutcome run(const std::string& code, const std::string& mesh = "tp = 2\ndp = 2",
                          Precision precision = Precision::kDeclared) {
  const std::string table = mesh.find("[mesh]") == std::string::npos ? "[mesh]\n" : "";
  const std::string text = table + mesh + "\n[program]\ncode = '''\n" + code + "'''\n";
  const Scenario scenario = scenario_of(text);
  check_names(scenario, all_ops());
  const auto device = make_cpu_device(cpu_kernel_table());
  Propagator propagator(all_ops(), PlanOptions{});
  Arena arena;
  const MeshLayout* layout = layout_of(scenario.mesh, arena);
  WorldOptions options;
  options.ranks = scenario.world;
  options.device = [&](std::int64_t) -> Device& { return *device; };
  options.propagator = &propagator;
  options.plans = &propagator.plans();
  ProgramOutcome out;
  std::vector<PrintedLines> sinks(static_cast<std::size_t>(scenario.world));
  out.accounts.resize(static_cast<std::size_t>(scenario.world));
  const WorldResult result = run_world(options, [&](RankContext& rank) {
    rank.meshes->construct(layout);
    rank.memory = &out.accounts[static_cast<std::size_t>(rank.rank)];
    ProgramSetup setup;
    setup.program = scenario.program.get();
    setup.params = &scenario.params;
    setup.registry = &all_ops();
    setup.layout = setup.reported = layout;
    setup.rank = rank.rank;
    setup.world_size = rank.world_size;
    setup.sink = &sinks[static_cast<std::size_t>(rank.rank)];
    ReferenceCalls reference(program_calls());
    const ProgramScope calls(precision == Precision::kReference ? reference : program_calls());
    Interpreter(setup).run();
  });
  if (!result.ok()) out.error = result.merged().text();
  for (PrintedLines& sink : sinks) out.lines.push_back(std::move(sink.lines));
  return out;
}

/// The lines of a program that prints the same on all ranks.
inline std::vector<std::string> printed(const std::string& code,
                                        const std::string& mesh = "tp = 2\ndp = 2",
                                        Precision precision = Precision::kDeclared) {
  ProgramOutcome out = run(code, mesh, precision);
  if (!out.error.empty()) return {out.error};
  for (const auto& lines : out.lines) CHECK(lines == out.lines[0]);
  return out.lines[0];
}

using Lines = std::vector<std::string>;

struct Refused {
  const char* code;
  std::vector<const char*> says;
};

/// Each program fails, with all of these words, and the text to write instead.
inline void check_refused(const std::vector<Refused>& rows,
                          const std::string& mesh = "tp = 2\ndp = 2") {
  for (const Refused& row : rows) {
    CAPTURE(std::string(row.code));
    const ProgramOutcome out = run(row.code, mesh);
    CAPTURE(out.error);
    for (const char* part : row.says) CHECK(out.error.find(part) != std::string::npos);
    CHECK(out.error.find("fix") != std::string::npos);
  }
}

}  // namespace shardlab::test
