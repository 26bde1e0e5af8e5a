// All specs are made here, checked once and interned: a spec that exists is valid (M-11), and two
// specs of equal content are one pointer. The look-up is made before the checks, so that a spec
// that is already known costs a hash and a comparison.
#include "mesh/spec.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "mesh/intern_table.h"
#include "mesh/placement_dims.h"

namespace shardlab {
namespace {

constexpr std::size_t kLayoutBuckets = 256;
constexpr std::size_t kSpecBuckets = 1 << 14;

bool is_iota(std::span<const std::int64_t> ranks) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

void check_names(const MeshLayout::Init& init) {
  if (init.names.empty()) return;
  if (init.names.size() != init.shape.size()) {
    fail(ErrorKind::kRuntime, Fix{"give one name per dim, or none at all"},
         "the mesh has {} names and {} dims", init.names.size(), init.shape.size());
  }
  for (std::size_t i = 1; i < init.names.size(); ++i) {
    const auto end = init.names.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(init.names.begin(), end, init.names[i]) != end) {
      fail(ErrorKind::kRuntime, Fix{"give each mesh dim a name of its own"},
           "two mesh dims are called '{}'", init.names[i]);
    }
  }
}

void check_ranks(std::vector<std::int64_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  if (!ranks.empty() && ranks.front() < 0) {
    fail(ErrorKind::kValue, Fix{"ranks are numbered from 0 on"}, "the mesh names rank {}",
         ranks.front());
  }
  const auto twice = std::adjacent_find(ranks.begin(), ranks.end());
  if (twice != ranks.end()) {
    fail(ErrorKind::kValue, Fix{"give every place of the mesh a rank of its own"},
         "the mesh names rank {} twice", *twice);
  }
}

void check_layout(const MeshLayout::Init& init) {
  if (init.shape.size() > kMostMeshDims) {
    fail(ErrorKind::kValue, Fix{"join dims that tensors are always cut along together"},
         "the mesh has {} dims; the most are {}", init.shape.size(), kMostMeshDims);
  }
  std::int64_t size = 1;
  for (std::size_t dim = 0; dim < init.shape.size(); ++dim) {
    const std::int64_t count = init.shape[dim];
    if (count < 1) {
      fail(count < 0 ? ErrorKind::kRuntime : ErrorKind::kValue,
           Fix{"leave the dim out, or give it 1 rank"},
           "mesh dim {} has {} ranks; it must have at least 1",
           dim < init.names.size() ? fmt::format("'{}'", init.names[dim]) : fmt::format("{}", dim),
           count);
    }
    if (__builtin_mul_overflow(size, count, &size)) {
      fail(ErrorKind::kValue, Fix{"use fewer or smaller mesh dims"},
           "the mesh has more than 2^63 ranks");
    }
  }
  check_names(init);
  if (init.ranks.empty()) return;
  if (static_cast<std::int64_t>(init.ranks.size()) != size) {
    fail(ErrorKind::kValue, Fix{"name as many ranks as the sizes of its dims multiply to, or none"},
         "the mesh names {} ranks and has places for {}", init.ranks.size(), size);
  }
  check_ranks(init.ranks);
}

std::uint64_t hash_of_layout(const MeshLayout::Init& init) {
  std::uint64_t hash = hash_range(init.names.size(), init.shape);
  for (const std::string& name : init.names) hash = hash_text(hash, name);
  return hash_range(hash, init.ranks);
}

/// The key of a spec in the table.
struct SpecKey {
  const MeshLayout* layout;
  const Placements& placements;
  const ShardOrder& order;
  const TensorMeta& meta;
  StridedShards strided;

  /// A sum of terms that do not wait for one another; `position` keeps their order.
  std::uint64_t hash() const {
    std::uint64_t sum = layout->hash() + static_cast<std::uint64_t>(strided);
    std::uint64_t position = static_cast<std::uint64_t>(meta.dtype) << 8;
    for (const Placement& placement : placements) sum += hash_mix(++position, hash_of(placement));
    for (const std::int32_t place : order) {
      sum += hash_mix(++position, static_cast<std::uint64_t>(place + 1));
    }
    for (const std::int64_t size : meta.shape) {
      sum += hash_mix(++position, static_cast<std::uint64_t>(size));
    }
    for (const std::int64_t step : meta.stride) {
      sum += hash_mix(++position, static_cast<std::uint64_t>(step));
    }
    return hash_mix(position, sum);
  }
  bool operator()(const DTensorSpec& spec) const {
    return spec.layout() == layout && spec.placements() == placements && spec.order() == order &&
           spec.meta() == meta && spec.strided() == strided;
  }
};

/// Specs without strided shards are all alike.
StridedShards meaning_of(const Placements& placements, StridedShards strided) {
  if (strided == StridedShards::kOrder) return strided;
  const bool any = std::ranges::any_of(placements, &Placement::is_strided_shard);
  return any ? strided : StridedShards::kOrder;
}

[[noreturn]] void refuse(const SpecKey& key, ErrorKind kind, std::string summary,
                         std::string fix = "") {
  Error error(kind, std::move(summary));
  error.with("mesh", key.layout->text()).with("placements", to_string(key.placements));
  if (!fix.empty()) error.with("fix", std::move(fix));
  throw error;
}

void check_shards(const SpecKey& key) {
  const auto ndim = static_cast<std::int64_t>(key.meta.shape.size());
  for (const Placement& placement : key.placements) {
    if (!placement.is_shard()) continue;
    if (placement.dim < 0) {
      refuse(key, ErrorKind::kInternal,
             fmt::format("placement {} has a negative dim", to_string(placement)));
    }
    if (placement.dim >= ndim) {
      throw no_such_dim(placement, key.meta.shape.size())
          .with("mesh", key.layout->text())
          .with("placements", to_string(key.placements));
    }
    if (placement.is_strided_shard() && placement.split_factor < 1) {
      refuse(key, ErrorKind::kValue,
             fmt::format("the split factor of placement {} is below 1", to_string(placement)),
             "use S(dim), which is a split factor of 1");
    }
    if (placement.is_strided_shard() && !is_default_order(key.placements, key.order)) {
      refuse(key, ErrorKind::kValue,
             fmt::format("placement {} has a shard order of its own; strided shards must "
                         "be cut in the mesh's order",
                         to_string(placement)),
             "leave the shard order out, or use S(dim)");
    }
  }
}

void check_partials(const SpecKey& key) {
  const Placement* first = nullptr;
  for (const Placement& placement : key.placements) {
    if (!placement.is_partial()) continue;
    if (first != nullptr && !may_mix(*first, placement)) {
      refuse(key, ErrorKind::kValue,
             fmt::format("{} and {} cannot be pending in one tensor", to_string(*first),
                         to_string(placement)),
             "reduce one of them first: redistribute that mesh dim to R");
    }
    if (first == nullptr) first = &placement;
  }
}

// Sizes of 0 count as 1: strides do not shrink either.
void check_size(const SpecKey& key) {
  std::int64_t bytes = item_bytes(key.meta.dtype);
  bool fits = true;
  for (const std::int64_t size : key.meta.shape) {
    fits &= size >= 0 && !__builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes);
  }
  if (!fits) {
    refuse(
        key, ErrorKind::kValue,
        fmt::format("no tensor has shape [{}]: a size is negative, or the bytes too many to count",
                    text_of_list(std::span<const std::int64_t>(key.meta.shape), ", ")),
        "give sizes of 0 or more whose product can be addressed");
  }
}

void check_spec(const SpecKey& key) {
  if (key.placements.size() != key.layout->ndim()) {
    refuse(
        key, ErrorKind::kValue,
        fmt::format(
            "the number of placements is {} on a mesh of {} dims; there must be one per mesh dim",
            key.placements.size(), key.layout->ndim()),
        "give R for the mesh dims that nothing is cut along");
  }
  check_size(key);
  check_order(key.placements, key.order);
  check_shards(key);
  check_partials(key);
}

}  // namespace

DTensorSpec::DTensorSpec(const MeshLayout* layout, Placements placements, ShardOrder order,
                         TensorMeta meta, StridedShards strided, std::uint64_t hash)
    : layout_(layout),
      placements_(std::move(placements)),
      order_(std::move(order)),
      meta_(std::move(meta)),
      hash_(hash),
      default_order_(is_default_order(placements_, order_)),
      strided_shards_(strided) {
  for (std::size_t mesh_dim = 0; mesh_dim < placements_.size(); ++mesh_dim) {
    const Placement& placement = placements_[mesh_dim];
    replicated_ &= placement.is_replicate();
    sharded_ |= placement.is_shard();
    partial_ |= placement.is_partial();
    strided_ |= placement.is_strided_shard();
    if (placement.is_shard()) num_shards_ *= layout_->size(mesh_dim);
  }
}

const DTensorSpec* DTensorSpec::with(const Placements& placements) const {
  return with(placements, default_order(placements));
}

const DTensorSpec* DTensorSpec::with(const Placements& placements, const ShardOrder& order) const {
  return arena().spec(layout_, placements, order, meta_, strided_shards_);
}

const DTensorSpec* DTensorSpec::with(const TensorMeta& meta) const {
  return arena().spec(layout_, placements_, order_, meta, strided_shards_);
}

const DTensorSpec* DTensorSpec::with(StridedShards strided) const {
  if (strided == strided_shards_) return this;
  return arena().spec(layout_, placements_, order_, meta_, strided);
}

bool DTensorSpec::same_pieces(const DTensorSpec& other) const {
  return &other == this || (strided_ && other.with(strided_shards_) == this);
}

struct Arena::Impl {
  InternTable<MeshLayout> layouts{kLayoutBuckets};
  InternTable<DTensorSpec> specs{kSpecBuckets};
};

Arena::Arena() : impl_(std::make_unique<Impl>()) {}
Arena::~Arena() = default;

const MeshLayout* Arena::layout(MeshLayout::Init init) {
  check_layout(init);
  if (is_iota(init.ranks)) init.ranks.clear();
  const std::uint64_t hash = hash_of_layout(init);
  const auto equal = [&](const MeshLayout& layout) {
    return layout.shape_ == init.shape && layout.ranks_ == init.ranks &&
           layout.named_ == !init.names.empty() &&
           (!layout.named_ || layout.names_ == init.names) && layout.root_ == init.root;
  };
  const auto make = [&] {
    return std::unique_ptr<const MeshLayout>(new MeshLayout(this, std::move(init), hash));
  };
  return impl_->layouts.find_or_insert(hash, equal, make);
}

const DTensorSpec* Arena::spec(const MeshLayout* layout, const Placements& placements,
                               const TensorMeta& meta) {
  return spec(layout, placements, default_order(placements), meta);
}

const DTensorSpec* Arena::spec(const MeshLayout* layout, const Placements& placements,
                               const ShardOrder& order, const TensorMeta& meta,
                               StridedShards strided) {
  const SpecKey key{layout, placements, order, meta, meaning_of(placements, strided)};
  const std::uint64_t hash = key.hash();
  if (const DTensorSpec* found = impl_->specs.find(hash, key)) return found;
  check_spec(key);
  const auto make = [&] {
    return std::unique_ptr<const DTensorSpec>(
        new DTensorSpec(layout, placements, order, meta, key.strided, hash));
  };
  return impl_->specs.find_or_insert(hash, key, make);
}

void Arena::visit_specs(const std::function<void(const DTensorSpec&)>& visit) const {
  impl_->specs.visit(visit);
}

Arena& process_arena() {
  static Arena arena;
  return arena;
}

}  // namespace shardlab
