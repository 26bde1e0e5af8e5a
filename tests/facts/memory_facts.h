// memory_facts.h - the checkers of what autograd keeps and of how much a program holds
// (tests/golden/facts/memory/README.md), for the table of families.
#pragma once

#include "sim/recorded/check.h"

namespace shardlab {

/// Runs each call on one rank and compares what its graph keeps.
std::unique_ptr<FactChecker> make_saved_checker(std::string_view stem);
/// Runs each program on one rank and compares how much it held when, and what for.
std::unique_ptr<FactChecker> make_peaks_checker(std::string_view stem);

}  // namespace shardlab
