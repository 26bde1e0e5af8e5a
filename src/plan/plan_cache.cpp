#include <array>
#include <atomic>
#include <bit>
#include <mutex>

#include "base/hash.h"
#include "base/rank_context.h"
#include "plan/plan.h"
#include "plan/whole.h"

// A set-associative table of pointers to immutable entries. A hit loads one pointer and compares a
// key. A miss plans outside of the lock, so that ranks which miss the same pair plan it twice at
// worst.

namespace shardlab {
namespace {

constexpr std::size_t kWays = 8;  // one cache line of pointers
constexpr std::size_t kStripes =
    64;  // hits are counted by rank, so that threads do not share a line

struct Key {
  const DTensorSpec* source;
  const DTensorSpec* target;
  std::optional<PlannerKind> planner;
  FlattenedDims flattened;
  bool operator==(const Key&) const = default;
};

std::uint64_t hash_of(const Key& key) {
  auto rest = key.planner ? static_cast<std::uint64_t>(*key.planner) + 1 : 0;
  for (const std::uint32_t mask : key.flattened) rest = hash_mix(rest, mask);
  // Specs are interned: their addresses are the values.
  const auto pair = hash_mix(reinterpret_cast<std::uintptr_t>(key.source),
                             reinterpret_cast<std::uintptr_t>(key.target));
  return hash_mix(pair, rest);
}

struct Entry {
  Key key;
  Plan plan;
};

struct alignas(64) Bucket {
  std::array<std::atomic<Entry*>, kWays> ways{};
};

struct alignas(64) Stripe {
  std::atomic<std::uint64_t> hits{0};
};

std::string describe(const DTensorSpec& spec) {
  return order_text(spec.placements(), spec.order());
}

Plan planned(const Key& key, PlanOptions options) {
  if (key.planner) options.planner = key.planner;
  options.flattened = key.flattened;
  PlanResult result = make_safe_plan(*key.source, *key.target, options);
  if (Plan* plan = std::get_if<Plan>(&result)) return std::move(*plan);
  throw Error(ErrorKind::kRuntime,
              fmt::format("no plan leads from {} to {}: {}", describe(*key.source),
                          describe(*key.target), std::get<NoPlan>(result).reason))
      .with("mesh", key.source->layout()->text())
      .with("placements", describe(*key.source) + " -> " + describe(*key.target));
}

}  // namespace

struct PlanCache::Impl {
  std::vector<Bucket> buckets;
  std::array<Stripe, kStripes> stripes;
  std::mutex mutex;                           ///< guards all that follows, and stores into buckets
  std::vector<std::unique_ptr<Entry>> owned;  ///< evicted ones too: their readers may not be done
  std::uint64_t misses = 0, evictions = 0, entries = 0;

  explicit Impl(std::size_t capacity)
      : buckets(std::bit_ceil(std::max<std::size_t>(1, capacity / kWays))) {}

  Bucket& bucket_of(const Key& key) { return buckets[hash_of(key) & (buckets.size() - 1)]; }
  static const Plan* look_up(const Bucket& bucket, const Key& key) {
    for (const std::atomic<Entry*>& way : bucket.ways) {
      const Entry* entry = way.load(std::memory_order_acquire);
      if (!entry) return nullptr;
      if (entry->key == key) return &entry->plan;
    }
    return nullptr;
  }
  void count_hit() {
    const RankContext* context = current_rank_or_null();
    const auto stripe = context ? static_cast<std::size_t>(context->rank) % kStripes : 0;
    stripes[stripe].hits.fetch_add(1, std::memory_order_relaxed);
  }
  const Plan& insert(const Key& key, Plan plan);
};

const Plan& PlanCache::Impl::insert(const Key& key, Plan plan) {
  const std::lock_guard lock(mutex);
  ++misses;
  Bucket& bucket = bucket_of(key);
  if (const Plan* known = look_up(bucket, key)) return *known;
  std::size_t way = 0;
  while (way < kWays && bucket.ways[way].load(std::memory_order_relaxed)) ++way;
  if (way == kWays) {
    way = evictions++ % kWays;
  } else {
    ++entries;
  }
  owned.push_back(std::make_unique<Entry>(Entry{key, std::move(plan)}));
  bucket.ways[way].store(owned.back().get(), std::memory_order_release);
  return owned.back()->plan;
}

PlanCache::PlanCache(PlanOptions options, std::size_t capacity)
    : options_(std::move(options)), impl_(std::make_unique<Impl>(capacity)) {}

PlanCache::~PlanCache() = default;

const Plan& PlanCache::find(const DTensorSpec* source, const DTensorSpec* target,
                            std::optional<PlannerKind> planner, const FlattenedDims& flattened) {
  const Key key{source, target, planner, flattened};
  if (const Plan* plan = Impl::look_up(impl_->bucket_of(key), key)) {
    impl_->count_hit();
    return *plan;
  }
  return impl_->insert(key, planned(key, options_));
}

CacheStats PlanCache::stats() const {
  CacheStats stats;
  for (const Stripe& stripe : impl_->stripes) {
    stats.hits += stripe.hits.load(std::memory_order_relaxed);
  }
  const std::lock_guard lock(impl_->mutex);
  stats.misses = impl_->misses;
  stats.evictions = impl_->evictions;
  stats.entries = impl_->entries;
  return stats;
}

void PlanCache::visit(const std::function<void(const Plan&)>& visit) const {
  const std::lock_guard lock(impl_->mutex);
  for (const std::unique_ptr<Entry>& entry : impl_->owned) visit(entry->plan);
}

void PlanCache::clear() {
  const std::lock_guard lock(impl_->mutex);
  for (Bucket& bucket : impl_->buckets) {
    for (std::atomic<Entry*>& way : bucket.ways) way.store(nullptr, std::memory_order_relaxed);
  }
  for (Stripe& stripe : impl_->stripes) stripe.hits.store(0, std::memory_order_relaxed);
  impl_->owned.clear();
  impl_->misses = impl_->evictions = impl_->entries = 0;
}

}  // namespace shardlab
