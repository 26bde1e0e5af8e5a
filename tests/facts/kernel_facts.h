// kernel_facts.h - the checkers of recorded values, gradients, sequences of calls and laws
// (tests/golden/facts/kernels/README.md), for the table of families. Each runs calls on plain
// tensors in a world of one rank, through the dispatcher.
#pragma once

#include "tests/facts/check.h"

namespace shardlab {

/// Each call gives the recorded shapes, dtypes and values, or fails as recorded.
std::unique_ptr<FactChecker> make_value_checker(std::string_view stem);
/// Each call has the recorded gradients.
std::unique_ptr<FactChecker> make_gradient_checker(std::string_view stem);
/// Each sequence of calls gives the recorded values, each call the recorded shapes and dtypes.
std::unique_ptr<FactChecker> make_sequence_checker(std::string_view stem);
/// Draws of each call follow the recorded law, as far as their number can show.
std::unique_ptr<FactChecker> make_random_checker(std::string_view stem);

}  // namespace shardlab
