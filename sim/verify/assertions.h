// assertions.h - assert_close(a, b) of a program, decided by the ranks' run in f64.
#pragma once

#include <optional>
#include <vector>

#include "base/error.h"
#include "sim/run/recording.h"

namespace shardlab {

/// The error of the first pair, in the order of the program, whose elements differ: floats by more
/// than 1e-9 of the largest in their row, integers and bools at all. `in_f64` and `declared` are
/// the same program by rank; `declared` gives the error of its own dtype, and may lack values of
/// ranks in other processes.
std::optional<Error> failed_assertion(const std::vector<const Recording*>& in_f64,
                                      const std::vector<const Recording*>& declared);

}  // namespace shardlab
