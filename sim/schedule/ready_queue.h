// ready_queue.h - the policy: the next of the runnable ranks. First come, first served, or drawn
// from a seed: then a run is the same again under the same seed, on every machine. A seed whose
// upper half is a number of steps gives an order of PCT (Burckhardt et al., "A randomized scheduler
// with probabilistic guarantees of finding bugs", ASPLOS 2010) with one change of priorities.
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
    popped_ = repeats_ = 0;
    last_ = -1;
    priorities_.clear();
    const auto steps = static_cast<std::uint32_t>(seed.value_or(0) >> 32);
    if (steps == 0) return;
    for (std::size_t i = 0; i < ranks; ++i) {
      priorities_.push_back(static_cast<std::int64_t>(i));
      std::swap(priorities_.back(), priorities_[draws_.below(static_cast<std::uint32_t>(i) + 1)]);
    }
    change_ = draws_.below(steps);
  }
  /// The number of ranks that were drawn so far.
  std::uint64_t popped() const { return popped_; }
  bool empty() const { return head_ == tail_; }
  void push(std::int32_t rank) {
    ring_[tail_] = rank;
    tail_ = tail_ + 1 == ring_.size() ? 0 : tail_ + 1;
  }
  /// The next rank, unless one is drawn. Not when empty.
  std::int32_t front() const { return ring_[head_]; }
  /// Not when empty.
  std::int32_t pop() {
    if (drawn_) priorities_.empty() ? bring_forward() : bring_first();
    ++popped_;
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

  // The rank of highest priority. One that runs on and on only asks whether others have come.
  void bring_first() {
    constexpr std::uint64_t kMostRepeats = 1000;
    const auto priority = [&](std::size_t place) -> std::int64_t& {
      return priorities_[static_cast<std::size_t>(ring_[place])];
    };
    const auto first = [&] {
      std::size_t best = head_;
      for (std::size_t i = head_; i != tail_; i = i + 1 == ring_.size() ? 0 : i + 1) {
        if (priority(i) > priority(best)) best = i;
      }
      return best;
    };
    std::size_t place = first();
    repeats_ = ring_[place] == last_ ? repeats_ + 1 : 0;
    if (popped_ == change_ || repeats_ > kMostRepeats) {
      priority(place) = -1 - static_cast<std::int64_t>(popped_);
      repeats_ = 0;
      place = first();
    }
    last_ = ring_[place];
    std::swap(ring_[head_], ring_[place]);
  }

  std::vector<std::int32_t> ring_;
  std::vector<std::int64_t> priorities_;  // by rank; empty: not PCT
  std::uint64_t popped_ = 0, change_ = 0, repeats_ = 0;
  std::int32_t last_ = -1;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
  bool drawn_ = false;
  Draws draws_{0};
};

}  // namespace shardlab
