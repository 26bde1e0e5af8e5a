// decision_cache.h - decisions by call key, shared by all ranks of a process (K-25). A hit loads
// one pointer and takes no lock; a miss is decided outside of the lock, so that ranks which miss
// the same call decide it twice at worst, with equal results. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "plan/plan.h"
#include "schema/op_schema.h"
#include "schema/op_strategy.h"

namespace shardlab {

struct Decision {
  std::uint64_t hash = 0;
  OpSchema schema;
  OutputSharding sharding;
};

class DecisionCache {
 public:
  explicit DecisionCache(std::size_t capacity);
  ~DecisionCache();
  DecisionCache(const DecisionCache&) = delete;
  DecisionCache& operator=(const DecisionCache&) = delete;

  /// Null on a miss.
  const OutputSharding* find(std::uint64_t hash, const OpSchema& schema);
  /// Keeps the first decision for a call when two ranks decided it. Evicted decisions live on until
  /// as many more were evicted as the cache holds, so that a call in progress may finish with one.
  const OutputSharding& insert(Decision decision);
  CacheStats stats() const;
  void clear();

 private:
  static constexpr std::size_t kWays = 8;  // one cache line of pointers
  static constexpr std::size_t kStripes = 64;
  struct alignas(64) Bucket {
    std::array<std::atomic<const Decision*>, kWays> ways{};
  };
  struct alignas(64) Stripe {
    std::atomic<std::uint64_t> hits{0};
  };

  static const Decision* look_up(const Bucket& bucket, std::uint64_t hash, const OpSchema& schema);

  std::vector<Bucket> buckets_;
  std::array<Stripe, kStripes> stripes_;  ///< hits, by rank: threads share no line
  mutable std::mutex mutex_;              ///< guards what follows, and stores into buckets
  std::deque<std::unique_ptr<const Decision>> evicted_;
  std::uint64_t misses_ = 0, evictions_ = 0, entries_ = 0;
};

}  // namespace shardlab
