// ready_queue.h - the policy: the next of the runnable ranks. First come, first served, or drawn
// from a seed: then a run is the same again under the same seed, on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sim/schedule/draws.h"

namespace shardlab {

/// Holds each rank at most once. One thread.
class ReadyQueue {
 public:
  /// Room for `ranks` ranks; empties the queue. With a seed, pop() draws.
  void reset(std::size_t ranks, std::optional<std::uint64_t> seed) {
    ring_.assign(ranks + 1, 0);
    head_ = tail_ = 0;
    drawn_ = seed.has_value();
    draws_ = Draws(seed.value_or(0));
  }
  bool empty() const { return head_ == tail_; }
  void push(std::int32_t rank) {
    ring_[tail_] = rank;
    tail_ = tail_ + 1 == ring_.size() ? 0 : tail_ + 1;
  }
  /// The next rank, unless one is drawn. Not when empty.
  std::int32_t front() const { return ring_[head_]; }
  /// Not when empty.
  std::int32_t pop() {
    if (drawn_) bring_forward();
    const std::int32_t rank = ring_[head_];
    head_ = head_ + 1 == ring_.size() ? 0 : head_ + 1;
    return rank;
  }

 private:
  // Any rank of the queue changes places with the first.
  void bring_forward() {
    const std::size_t count = tail_ >= head_ ? tail_ - head_ : tail_ + ring_.size() - head_;
    const std::size_t place = head_ + draws_.below(static_cast<std::uint32_t>(count));
    std::swap(ring_[head_], ring_[place < ring_.size() ? place : place - ring_.size()]);
  }

  std::vector<std::int32_t> ring_;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
  bool drawn_ = false;
  Draws draws_{0};
};

}  // namespace shardlab
