// ready_queue.h - the policy: which of the runnable ranks goes next. First come, first served.
// A policy that draws from a seed takes this class's place: push and pop are all a scheduler asks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardlab {

/// Holds each rank at most once. One thread.
class ReadyQueue {
 public:
  /// Room for `ranks` ranks; empties the queue.
  void reset(std::size_t ranks) {
    ring_.assign(ranks + 1, 0);
    head_ = tail_ = 0;
  }
  bool empty() const { return head_ == tail_; }
  void push(std::int32_t rank) {
    ring_[tail_] = rank;
    tail_ = tail_ + 1 == ring_.size() ? 0 : tail_ + 1;
  }
  /// Not when empty.
  std::int32_t pop() {
    const std::int32_t rank = ring_[head_];
    head_ = head_ + 1 == ring_.size() ? 0 : head_ + 1;
    return rank;
  }

 private:
  std::vector<std::int32_t> ring_;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
};

}  // namespace shardlab
