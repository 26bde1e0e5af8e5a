// observed_op.h - brackets what happens inside an op for the rank's observer.
#pragma once

#include "base/rank_context.h"
#include "comm/observer.h"

namespace shardlab {

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
  ObservedOp(const ObservedOp&) = delete;
  ObservedOp& operator=(const ObservedOp&) = delete;

 private:
  Observer* observer_ = nullptr;
};

}  // namespace shardlab
