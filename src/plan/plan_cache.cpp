// Plans by key. A miss plans outside of any lock, so that ranks which miss the same pair plan it
// twice at worst.
#include "base/hash.h"
#include "plan/move_pieces.h"
#include "plan/plan.h"
#include "plan/shared_cache.h"
#include "plan/whole.h"

namespace shardlab {

// Named: PlanCache::Impl, which the header declares, is made of it.
namespace plan_cache {

struct Key {
  const DTensorSpec* source;
  const DTensorSpec* target;
  std::optional<PlannerKind> planner;
  FlattenedDims flattened;
  bool operator==(const Key&) const = default;
};

struct Entry {
  Key key;
  Plan plan;
};

struct Move {
  const DTensorSpec* source;
  const DTensorSpec* target;
  MovePieces pieces;
};

}  // namespace plan_cache

namespace {

using plan_cache::Entry;
using plan_cache::Key;

std::uint64_t hash_of(const Key& key) {
  auto rest = key.planner ? static_cast<std::uint64_t>(*key.planner) + 1 : 0;
  for (const std::uint32_t mask : key.flattened) rest = hash_mix(rest, mask);
  // Specs are interned: their addresses are the values.
  const auto pair = hash_mix(reinterpret_cast<std::uintptr_t>(key.source),
                             reinterpret_cast<std::uintptr_t>(key.target));
  return hash_mix(pair, rest);
}

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
      .with("placements", describe(*key.source) + " -> " + describe(*key.target))
      .with("fix", "go through R: redistribute the tensor to replicas first");
}

}  // namespace

struct PlanCache::Impl {
  explicit Impl(std::size_t capacity) : entries(capacity) {}
  SharedCache<Entry> entries;
  SharedCache<plan_cache::Move> moves{8};  // each lists all ranks
};

PlanCache::PlanCache(PlanOptions options, std::size_t capacity)
    : options_(std::move(options)), impl_(std::make_unique<Impl>(capacity)) {}

PlanCache::~PlanCache() = default;

InUse<Plan> PlanCache::find(const DTensorSpec* source, const DTensorSpec* target,
                            std::optional<PlannerKind> planner, const FlattenedDims& flattened) {
  const Key key{source, target, planner, flattened};
  const std::uint64_t hash = hash_of(key);
  const auto matches = [&key](const Entry& entry) { return entry.key == key; };
  InUse<Entry> known = impl_->entries.find(hash, matches);
  if (!known) known = impl_->entries.insert(hash, matches, {key, planned(key, options_)});
  return std::move(known).part(&Entry::plan);
}

InUse<MovePieces> PlanCache::pieces(const DTensorSpec* source, const DTensorSpec* target) {
  using plan_cache::Move;
  const std::uint64_t hash = hash_of({source, target, std::nullopt, {}});
  const auto matches = [&](const Move& move) {
    return move.source == source && move.target == target;
  };
  InUse<Move> known = impl_->moves.find(hash, matches);
  if (!known) {
    known = impl_->moves.insert(hash, matches, {source, target, MovePieces(*source, *target)});
  }
  return std::move(known).part(&Move::pieces);
}

CacheStats PlanCache::stats() const { return impl_->entries.stats(); }

void PlanCache::visit(const std::function<void(const Plan&)>& visit) const {
  impl_->entries.visit([&visit](const Entry& entry) { visit(entry.plan); });
}

void PlanCache::clear() {
  impl_->entries.clear();
  impl_->moves.clear();
}

}  // namespace shardlab
