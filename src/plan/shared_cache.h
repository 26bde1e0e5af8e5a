// shared_cache.h - a bounded table of immutable entries that all ranks of a process share.
// Thread-safe.
//
// Set-associative: an entry has one of the few places of the bucket that its hash chooses. A hit
// loads one pointer and takes no lock. An entry that has lost its place lives on until as many more
// were evicted as the cache holds, and for as long as a rank may be using it.
//
// Uses are counted for all entries together: each use begins by adding 1 to one of two counters and
// ends by adding 1 to its counterpart. An entry that can no longer be found is unused once each of
// the two was seen without a use. To reach this while other uses continue, new uses are counted by
// the counter that was seen so last, and the other one runs out. A rank that waits in the middle of
// a use holds up what is freed, and nothing else. (Sleepable read-copy-update is the same idea.)
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/rank_context.h"
#include "plan/in_use.h"
#include "plan/plan.h"

namespace shardlab {

/// An entry is made on a miss and never changed afterwards.
template <typename Entry>
class SharedCache {
 public:
  /// `capacity` in entries; rounded to whole buckets.
  explicit SharedCache(std::size_t capacity)
      : buckets_(std::bit_ceil(std::max<std::size_t>(1, capacity / kWays))) {}

  /// The entry of this hash for which `matches(entry)` holds; null on a miss.
  template <typename Matches>
  InUse<Entry> find(std::uint64_t hash, const Matches& matches) {
    Stripe& stripe = stripe_of_rank();
    const std::size_t side = begin_use(stripe);
    if (const Entry* found = look_up(bucket_of(hash), matches)) return {*found, stripe.ended[side]};
    stripe.ended[side].fetch_add(1, std::memory_order_release);
    no_hits_.fetch_add(1, std::memory_order_relaxed);
    return {};
  }

  /// Adds an entry, unless another rank was first: then gives the other's.
  template <typename Matches>
  InUse<Entry> insert(std::uint64_t hash, const Matches& matches, Entry entry) {
    const std::lock_guard lock(mutex_);
    no_hits_.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t number = misses_++;
    Bucket& bucket = bucket_of(hash);
    if (const Entry* known = look_up(bucket, matches)) return used(*known);
    std::size_t way = 0;
    while (way < kWays && bucket.ways[way].load(std::memory_order_relaxed) != nullptr) ++way;
    if (way == kWays) {
      way = evictions_++ % kWays;
      retire(*bucket.ways[way].load(std::memory_order_relaxed));
    } else {
      ++entries_;
    }
    const Node& fresh = *living_.emplace(number, std::move(entry)).first;
    bucket.ways[way].store(&fresh);
    return used(fresh.second);
  }

  /// Calls visit(entry) for every entry that is not freed, in the order they were made.
  template <typename Visit>
  void visit(const Visit& visit) const {
    const std::lock_guard lock(mutex_);
    for (const Node& node : living_) visit(node.second);
  }

  /// Sums of all stripes; hits of ranks that run meanwhile may be missed.
  CacheStats stats() const {
    const std::lock_guard lock(mutex_);
    CacheStats stats{.hits = 0, .misses = misses_, .evictions = evictions_, .entries = entries_};
    for (const Stripe& stripe : stripes_) stats.hits += stripe.begun[0] + stripe.begun[1];
    stats.hits -= no_hits_;
    return stats;
  }

  /// Frees every entry. Not while ranks run.
  void clear() {
    const std::lock_guard lock(mutex_);
    for (Bucket& bucket : buckets_) {
      for (std::atomic<const Node*>& way : bucket.ways) {
        way.store(nullptr, std::memory_order_relaxed);
      }
    }
    living_.clear();
    retired_.clear();
    for (Stripe& stripe : stripes_) {
      for (std::size_t side : {0, 1}) stripe.begun[side] = stripe.ended[side] = 0;
    }
    no_hits_ = 0;
    misses_ = evictions_ = entries_ = 0;
    leaving_ = seen_unused_ = 0;
  }

 private:
  static constexpr std::size_t kWays = 8;  // one cache line of pointers
  static constexpr std::size_t kStripes = 64;
  using Living = std::map<std::uint64_t, Entry>;  // by the number of the miss that made them
  using Node = typename Living::value_type;
  struct alignas(64) Bucket {
    std::array<std::atomic<const Node*>, kWays> ways{};
  };
  /// Uses by some of the ranks, on two sides.
  struct alignas(64) Stripe {
    std::array<std::atomic<std::uint64_t>, 2> begun{}, ended{};
  };

  Stripe& stripe_of_rank() {
    const RankContext* context = current_rank_or_null();
    return stripes_[context ? static_cast<std::size_t>(context->rank) % kStripes : 0];
  }

  // The side that counts the use. This and the later loads of pointers are in one order with the
  // stores of pointers and the later loads of counters: either the use is seen, or it does not find
  // an entry that has lost its place.
  std::size_t begin_use(Stripe& stripe) {
    const std::size_t side = side_.load(std::memory_order_relaxed);
    stripe.begun[side].fetch_add(1);
    return side;
  }

  Bucket& bucket_of(std::uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }

  template <typename Matches>
  static const Entry* look_up(const Bucket& bucket, const Matches& matches) {
    for (const std::atomic<const Node*>& way : bucket.ways) {
      const Node* node = way.load();
      if (node == nullptr) return nullptr;
      if (matches(node->second)) return &node->second;
    }
    return nullptr;
  }

  // While no other rank can free it.
  InUse<Entry> used(const Entry& entry) {
    Stripe& stripe = stripe_of_rank();
    return {entry, stripe.ended[begin_use(stripe)]};
  }

  // Ends are counted first: a use that ends in between is taken for one that continues.
  bool unused(std::size_t side) const {
    std::uint64_t ended = 0, begun = 0;
    for (const Stripe& stripe : stripes_) ended += stripe.ended[side].load();
    for (const Stripe& stripe : stripes_) begun += stripe.begun[side].load();
    return begun == ended;
  }

  void retire(const Node& node) {
    retired_.push_back(node.first);
    const std::size_t kept = buckets_.size() * kWays;
    if (retired_.size() <= kept) return;
    if (leaving_ == 0) leaving_ = retired_.size() - kept;
    for (; seen_unused_ < 2; ++seen_unused_) {
      const std::size_t other = 1 - side_.load(std::memory_order_relaxed);
      if (!unused(other)) return;
      side_.store(other, std::memory_order_relaxed);
    }
    for (; leaving_ > 0; --leaving_) {
      living_.erase(retired_.front());
      retired_.pop_front();
    }
    seen_unused_ = 0;
  }

  std::vector<Bucket> buckets_;
  std::array<Stripe, kStripes> stripes_;    ///< by rank: threads share no line
  std::atomic<std::size_t> side_ = 0;       ///< counts new uses
  std::atomic<std::uint64_t> no_hits_ = 0;  ///< uses that found nothing, or an entry that they made
  mutable std::mutex mutex_;  ///< guards the members below, and stores into buckets and to side_
  Living living_;
  std::deque<std::uint64_t> retired_;  ///< have no place, and are not freed yet
  std::size_t leaving_ = 0;            ///< the first of them, which are freed next
  std::size_t seen_unused_ = 0;        ///< sides, since those lost their places
  std::uint64_t misses_ = 0, evictions_ = 0, entries_ = 0;
};

}  // namespace shardlab
