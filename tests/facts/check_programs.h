// check_programs.h - the family of recorded programs (tests/golden/facts/programs/README.md), which
// `shardlab replay` compares call by call.
#pragma once

#include "tests/facts/check.h"

namespace shardlab {

/// True when the first line of the file begins such a program.
bool takes_program(std::string_view stem, const Json& line);
/// Runs each call of a program on all its ranks and compares placements, implicit redistributions,
/// collectives and values.
std::unique_ptr<FactChecker> make_program_checker(std::string_view stem);

inline constexpr CheckFamily kRecordedPrograms{"programs/calls", takes_program,
                                               make_program_checker};

}  // namespace shardlab
