// program_facts.h - the checker of recorded programs (tests/golden/facts/programs/README.md), for
// the table of families.
#pragma once

#include "sim/facts/check.h"

namespace shardlab {

/// Runs each call of a program on all its ranks and compares placements, implicit redistributions,
/// collectives and values.
std::unique_ptr<FactChecker> make_program_checker(std::string_view stem);

}  // namespace shardlab
