// call_log.h - operands and results of a run's calls, in numbers: kept of a run that is made once
// more because a value is wrong. Private to the files that verify and judge.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/rank_context.h"
#include "comm/forwarding_observer.h"
#include "schema/op_row.h"
#include "sim/run/call_listener.h"
#include "sim/verify/global_value.h"

namespace shardlab {

/// One call of the program on one rank; calls inside of a call are not logged.
struct LoggedCall {
  const OpRow* row = nullptr;
  SourcePosition position;
  Pass pass = Pass::kForward;
  bool plain = true;  ///< no distributed tensor: only then are the values here
  /// Values of its tensors, lists flattened; empty once a rank has logged too much.
  std::vector<GlobalValue> operands, results;
  std::string numbers;  ///< all other arguments
  /// The tensor dims in arguments named dim, counted from 0 or from the end.
  Dims dims;
};

/// The calls of all ranks of one run, each in its order. Ranks write their own lists; read when
/// they have ended.
class CallLog final : public CallListener {
 public:
  explicit CallLog(std::int64_t ranks) : calls_(static_cast<std::size_t>(ranks)) {}

  Observer& listen(std::int64_t rank, Observer* next) override;
  void finish(std::int64_t) override {}
  const std::vector<std::vector<LoggedCall>>& by_rank() const { return calls_; }

 private:
  std::vector<std::vector<LoggedCall>> calls_;
  std::vector<std::unique_ptr<Observer>> observers_ =
      std::vector<std::unique_ptr<Observer>>(calls_.size());
};

}  // namespace shardlab
