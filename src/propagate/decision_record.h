// decision_record.h - the reasons for a decision, as data.
#pragma once

#include <string>
#include <vector>

#include "schema/op_strategy.h"

namespace shardlab {

/// A rule row, or a combination of rows, that was dropped.
struct RejectedRow {
  std::string row;  ///< "(S(0), R) -> S(0)" on one mesh dim, or a whole-mesh combination
  std::string reason;
};

/// The reasons for a decision. Made on request only: a decision is a pure function, so it can be
/// made again at any time.
struct DecisionRecord {
  std::vector<OpStrategy> strategies;  ///< one, or one per list element (foreach)
  std::vector<int> selected;           ///< index into each
  std::vector<RejectedRow> rejected;
  std::string choice;  ///< the rule of the selection that decided, in words
  OutputSharding sharding;
};

}  // namespace shardlab
