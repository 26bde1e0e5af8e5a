// mistake_effect.h - recorded values that a mistake changed: two runs compared with each other,
// without the verdict's own comparisons and bounds.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/run/recording.h"
#include "sim/verify/global_value.h"

namespace shardlab::test {

/// One recorded value as the ranks held it.
struct HeldValue {
  bool torn = false;  ///< replicas differ, or ranks of its mesh hold another type or nothing
  /// For a distributed value the whole one, of each mesh that holds one; for a plain one each
  /// rank's.
  std::vector<GlobalValue> values;
};
/// The keys are those of RecordedValue::key().
using HeldValues = std::map<std::string, HeldValue>;

HeldValues held_values(const std::vector<Recording>& ranks);

/// Values that are torn by the mistake alone, that one run alone has, or of which an element moved
/// by more than 1e-3 of the root mean square of its slice along the first dim.
std::set<std::string> affected_values(const HeldValues& right, const HeldValues& wrong);

}  // namespace shardlab::test
