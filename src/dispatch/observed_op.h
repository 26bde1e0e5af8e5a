// observed_op.h - brackets all calls inside an op for the rank's observer.
#pragma once

#include <optional>
#include <utility>

#include "base/rank_context.h"
#include "comm/observer.h"
#include "schema/call_record.h"

namespace shardlab {

/// Calls the observer when an op begins and, when the scope ends, when it has ended, also after an
/// exception. Does nothing on ranks that are not observed.
class ObservedOp {
 public:
  ObservedOp(const OpSchema& schema, const OutputSharding& sharding) {
    RankContext& rank = current_rank();
    if ((rank.mode & kModeObserve) == 0) return;
    observer_ = rank.observer;
    observer_->op_begins(schema, sharding);
  }
  ~ObservedOp() {
    if (observer_ != nullptr) observer_->op_ends();
  }
  ObservedOp& operator=(ObservedOp&&) = delete;

 private:
  Observer* observer_ = nullptr;
};

/// An op whose handler decides by itself how to place its operands: the observer receives them as
/// they are. Nothing where none of them is distributed. `observed` then lives as long as the op.
void report_given(const OpRow& row, const Arguments& args, std::optional<ObservedOp>& observed);

/// A call with its operands and results. Without ended() it has failed.
class ObservedCall {
 public:
  /// `random`: the state that a random op draws from, when that is not the running rank's own.
  ObservedCall(const OpRow& row, const Arguments& args, const RandomState* random = nullptr) {
    const RankContext& rank = current_rank();
    if ((rank.mode & kModeObserve) == 0) return;
    observer_ = rank.observer;
    record_ = {.row = &row, .args = &args, .random = random != nullptr ? *random : rank.random};
    observer_->call_begins(record_);
  }
  void ended(const Results& results) {
    if (observer_ == nullptr) return;
    record_.results = &results;
    std::exchange(observer_, nullptr)->call_ends(record_);
  }
  ~ObservedCall() {
    if (observer_ != nullptr) observer_->call_fails();
  }
  ObservedCall& operator=(ObservedCall&&) = delete;

 private:
  Observer* observer_ = nullptr;
  CallRecord record_;
};

}  // namespace shardlab
