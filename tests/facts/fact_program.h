// fact_program.h - recorded programs without a mesh, run as scenarios on one rank.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/error.h"
#include "sim/files/json.h"
#include "tests/facts/fact_scenarios.h"

namespace shardlab {

class CaseReport;
struct CheckSummary;

/// A scenario's TOML text.
struct FactProgram {
  std::string text;
  std::int64_t first_line = 0;  ///< of the program, in the text
};

/// The program of a fact with "id", "program" and "inputs" (tests/golden/facts/memory/README.md).
FactProgram fact_program(const Json& fact);

/// Runs the programs of facts, and counts those that are skipped by the missing part that they
/// need. Used by one thread.
class FactPrograms {
 public:
  /// Called on the rank, once the scenario is read.
  using Prepare =
      std::function<FactScenarios::OnRank(const Scenario& scenario, std::int64_t first_line)>;
  /// Runs the program of `fact`. `compare` is called when it has ended, while its tensors live; a
  /// line that differs shows the scenario.
  void run(const Json& fact, CaseReport& report, const Prepare& prepare,
           const std::function<void()>& compare);
  /// A note for each part that is missing.
  void add_notes(CheckSummary& summary) const;

 private:
  void skip(const Error& error, CaseReport& report);

  FactScenarios scenarios_;
  std::map<std::string, std::int64_t> missing_;
};

}  // namespace shardlab
