// fact_program.h - a recorded program without a mesh, as a scenario on one rank.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/error.h"
#include "sim/record/json.h"

namespace shardlab {

class CaseReport;
struct CheckSummary;

/// A scenario's TOML text.
struct FactProgram {
  std::string text;
  std::int64_t first_line = 0;  ///< of the program, in the text
};

/// Of a fact with "id", "program" and "inputs" (tests/golden/facts/memory/README.md).
FactProgram fact_program(const Json& fact);

/// Programs that were skipped, counted by what they need and we do not have.
class MissingParts {
 public:
  /// Skips the line.
  void skip(const Error& error, CaseReport& report);
  /// A note for each.
  void add_notes(CheckSummary& summary) const;

 private:
  std::map<std::string, std::int64_t> missing_;
};

}  // namespace shardlab
