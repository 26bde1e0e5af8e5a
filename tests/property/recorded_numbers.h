// recorded_numbers.h - the numbers of every recorded value of a run, rank by rank, and the
// differences of two runs. Knows nothing of placements: pieces and terms are compared as each rank
// holds them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/run/recording.h"
#include "sim/verify/global_value.h"

namespace shardlab::test {

/// Indexed by rank, then by RecordedValue::key().
using RecordedNumbers = std::vector<std::map<std::string, GlobalValue>>;

RecordedNumbers numbers_of(const std::vector<Recording>& ranks);
/// Keys of values that some rank holds with other bits, or in one run only.
std::set<std::string> different_bits(const RecordedNumbers& a, const RecordedNumbers& b);
/// Likewise, but floats count as changed only beyond rounding: by more than 64 units in the last
/// place of the piece's largest element.
std::set<std::string> different_numbers(const RecordedNumbers& a, const RecordedNumbers& b);

}  // namespace shardlab::test
