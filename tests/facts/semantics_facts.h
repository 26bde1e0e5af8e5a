// semantics_facts.h - recorded behaviour of whole programs
// (tests/golden/facts/semantics/README.md). A recorded case is a short program in the scenario
// language: it sets one name per recorded field, and `print("comms")` begins the stretch whose
// collectives are counted under that name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/rank_context.h"
#include "tests/facts/check.h"

namespace shardlab {

/// The program of one recorded case.
struct SemanticsProgram {
  std::string text;
  std::vector<std::int64_t> mesh;        ///< sizes
  std::vector<std::int64_t> mesh_ranks;  ///< empty: 0, 1, ...
  MixedTensors mixed = MixedTensors::kRefuse;
};

/// Empty when a case is not written down here.
std::optional<SemanticsProgram> semantics_program(const Json& fact);
/// Why a case has no program that could be written down.
std::optional<SkipReason> semantics_skip(const Json& fact);

/// Runs each recorded case as a program and compares its fields and counts.
std::unique_ptr<FactChecker> make_semantics_checker(std::string_view stem);
/// Offsets of the reference's random stream per rank: reproduced for comparison (W-7, K-34).
std::unique_ptr<FactChecker> make_rng_offsets_checker(std::string_view stem);

}  // namespace shardlab
