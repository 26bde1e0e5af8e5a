// observer.h - what a rank does, told as it happens. An observer must not change results (D-35).
// One per rank, called on that rank. Set in RankContext::observer together with kModeObserve.
#pragma once

#include <string>

#include "comm/process_group.h"
#include "mesh/spec.h"

namespace shardlab {

struct OpSchema;
struct OutputSharding;
struct Plan;

/// One executed redistribution (X-9: the executor owns the record, the dispatcher adds the
/// argument).
struct RedistributionRecord {
  const DTensorSpec* source = nullptr;
  const DTensorSpec* target = nullptr;
  const Plan* plan = nullptr;
  int argument = -1;  ///< tensor argument of the op that needed it; -1: the program asked for it
  bool backward = false;
  SourcePosition position;
};

class Observer {
 public:
  virtual ~Observer() = default;
  /// A dispatched op with at least one DTensor: given specs and the decision. What happens until
  /// op_ends belongs to it; calls nest.
  virtual void op_begins(const OpSchema& schema, const OutputSharding& sharding) = 0;
  virtual void op_ends() = 0;
  virtual void redistribution(const RedistributionRecord& record) = 0;
  virtual void collective(const CollectiveRecord& record) = 0;
  /// Something the user should know that is no error (D-56).
  virtual void warning(const std::string& text) { static_cast<void>(text); }
};

}  // namespace shardlab
