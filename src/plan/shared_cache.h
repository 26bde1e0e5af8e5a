// shared_cache.h - a bounded table of immutable entries that all ranks of a process share.
// Thread-safe.
//
// Set-associative: an entry has one of the few places of the bucket that its hash chooses. A hit
// loads one pointer and takes no lock. An entry that has lost its place lives on until as many more
// were evicted as the cache holds, because a rank may be using it, and is freed then.
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
  const Entry* find(std::uint64_t hash, const Matches& matches) {
    const Entry* found = look_up(bucket_of(hash), matches);
    if (found == nullptr) return nullptr;
    const RankContext* context = current_rank_or_null();
    const auto stripe = context ? static_cast<std::size_t>(context->rank) % kStripes : 0;
    stripes_[stripe].hits.fetch_add(1, std::memory_order_relaxed);
    return found;
  }

  /// Adds an entry, unless another rank was first: then gives the other's.
  template <typename Matches>
  const Entry& insert(std::uint64_t hash, const Matches& matches, Entry entry) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t number = misses_++;
    Bucket& bucket = bucket_of(hash);
    if (const Entry* known = look_up(bucket, matches)) return *known;
    std::size_t way = 0;
    while (way < kWays && bucket.ways[way].load(std::memory_order_relaxed) != nullptr) ++way;
    if (way == kWays) {
      way = evictions_++ % kWays;
      retire(*bucket.ways[way].load(std::memory_order_relaxed));
    } else {
      ++entries_;
    }
    const Node& fresh = *living_.emplace(number, std::move(entry)).first;
    bucket.ways[way].store(&fresh, std::memory_order_release);
    return fresh.second;
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
    for (const Stripe& stripe : stripes_) stats.hits += stripe.hits.load(std::memory_order_relaxed);
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
    for (Stripe& stripe : stripes_) stripe.hits.store(0, std::memory_order_relaxed);
    misses_ = evictions_ = entries_ = 0;
  }

 private:
  static constexpr std::size_t kWays = 8;  // one cache line of pointers
  static constexpr std::size_t kStripes = 64;
  using Living = std::map<std::uint64_t, Entry>;  // by the number of the miss that made them
  using Node = typename Living::value_type;
  struct alignas(64) Bucket {
    std::array<std::atomic<const Node*>, kWays> ways{};
  };
  struct alignas(64) Stripe {
    std::atomic<std::uint64_t> hits{0};
  };

  Bucket& bucket_of(std::uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }

  template <typename Matches>
  static const Entry* look_up(const Bucket& bucket, const Matches& matches) {
    for (const std::atomic<const Node*>& way : bucket.ways) {
      const Node* node = way.load(std::memory_order_acquire);
      if (node == nullptr) return nullptr;
      if (matches(node->second)) return &node->second;
    }
    return nullptr;
  }

  void retire(const Node& node) {
    retired_.push_back(node.first);
    if (retired_.size() > buckets_.size() * kWays) {
      living_.erase(retired_.front());
      retired_.pop_front();
    }
  }

  std::vector<Bucket> buckets_;
  std::array<Stripe, kStripes> stripes_;  ///< hits, by rank: threads share no line
  mutable std::mutex mutex_;              ///< guards what follows, and stores into buckets
  Living living_;
  std::deque<std::uint64_t> retired_;  ///< have no place, and are not freed yet
  std::uint64_t misses_ = 0, evictions_ = 0, entries_ = 0;
};

}  // namespace shardlab
