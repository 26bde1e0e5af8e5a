// memory_facts.h - the checkers of the tensors that autograd keeps and of the bytes that a program
// holds (tests/golden/facts/memory/README.md), for the table of families.
#pragma once

#include "tests/facts/check.h"

namespace shardlab {

/// Runs each call on one rank and compares the tensors that its graph keeps.
std::unique_ptr<FactChecker> make_saved_checker(std::string_view stem);
/// Runs each program on one rank and compares the bytes it held, by place and purpose.
std::unique_ptr<FactChecker> make_peaks_checker(std::string_view stem);

}  // namespace shardlab
