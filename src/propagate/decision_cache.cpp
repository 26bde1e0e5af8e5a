#include "propagate/decision_cache.h"

#include <algorithm>
#include <bit>

#include "base/rank_context.h"

namespace shardlab {

DecisionCache::DecisionCache(std::size_t capacity)
    : buckets_(std::bit_ceil(std::max<std::size_t>(1, capacity / kWays))) {}

DecisionCache::~DecisionCache() { clear(); }

const Decision* DecisionCache::look_up(const Bucket& bucket, std::uint64_t hash,
                                       const OpSchema& schema) {
  for (const std::atomic<const Decision*>& way : bucket.ways) {
    const Decision* decision = way.load(std::memory_order_acquire);
    if (decision == nullptr) return nullptr;
    if (decision->hash == hash && decision->schema.same_key(schema)) return decision;
  }
  return nullptr;
}

const OutputSharding* DecisionCache::find(std::uint64_t hash, const OpSchema& schema) {
  const Decision* found = look_up(buckets_[hash & (buckets_.size() - 1)], hash, schema);
  if (found == nullptr) return nullptr;
  const RankContext* context = current_rank_or_null();
  const auto stripe = context ? static_cast<std::size_t>(context->rank) % kStripes : 0;
  stripes_[stripe].hits.fetch_add(1, std::memory_order_relaxed);
  return &found->sharding;
}

const OutputSharding& DecisionCache::insert(Decision decision) {
  const std::lock_guard lock(mutex_);
  ++misses_;
  Bucket& bucket = buckets_[decision.hash & (buckets_.size() - 1)];
  if (const Decision* known = look_up(bucket, decision.hash, decision.schema)) {
    return known->sharding;
  }
  std::size_t way = 0;
  while (way < kWays && bucket.ways[way].load(std::memory_order_relaxed) != nullptr) ++way;
  if (way == kWays) {
    way = evictions_++ % kWays;
    evicted_.emplace_back(bucket.ways[way].load(std::memory_order_relaxed));
    if (evicted_.size() > buckets_.size() * kWays) evicted_.pop_front();
  } else {
    ++entries_;
  }
  auto fresh = std::make_unique<const Decision>(std::move(decision));
  bucket.ways[way].store(fresh.get(), std::memory_order_release);
  return fresh.release()->sharding;
}

CacheStats DecisionCache::stats() const {
  const std::lock_guard lock(mutex_);
  CacheStats stats{.hits = 0, .misses = misses_, .evictions = evictions_, .entries = entries_};
  for (const Stripe& stripe : stripes_) stats.hits += stripe.hits.load(std::memory_order_relaxed);
  return stats;
}

void DecisionCache::clear() {
  const std::lock_guard lock(mutex_);
  for (Bucket& bucket : buckets_) {
    for (std::atomic<const Decision*>& way : bucket.ways) {
      delete way.exchange(nullptr, std::memory_order_relaxed);
    }
  }
  evicted_.clear();
  for (Stripe& stripe : stripes_) stripe.hits.store(0, std::memory_order_relaxed);
  misses_ = evictions_ = entries_ = 0;
}

}  // namespace shardlab
