// Numbers of decisions are never used twice, so that an entry whose decision was forgotten is only
// dead, and cannot be taken for that of another one.
#include "dispatch/placed_sizes.h"

#include <algorithm>
#include <memory>

namespace shardlab {
namespace {

constexpr std::int64_t kUndefined = -1;

/// Calls visit(number) for what tells sizes of pieces apart: of each the number of dims, then
/// sizes.
template <typename Visit>
void for_each_number(const LocalTensors& pieces, Visit visit) {
  for (const Tensor& piece : pieces) {
    if (!piece.defined()) {
      visit(kUndefined);
      continue;
    }
    visit(static_cast<std::int64_t>(piece.shape().size()));
    for (const std::int64_t size : piece.shape()) visit(size);
  }
}

// As for_each_number gives them, up to the first that differs.
bool same_sizes(const InlineVector<std::int64_t, 8>& sizes, const LocalTensors& pieces) {
  const std::int64_t *at = sizes.begin(), *const end = sizes.end();
  const auto is_next = [&](std::int64_t number) { return at != end && *at++ == number; };
  for (const Tensor& piece : pieces) {
    if (!piece.defined()) {
      if (!is_next(kUndefined)) return false;
      continue;
    }
    const Dims& shape = piece.shape();
    if (!is_next(static_cast<std::int64_t>(shape.size()))) return false;
    if (!std::ranges::all_of(shape, is_next)) return false;
  }
  return at == end;
}

}  // namespace

// On the heap: what a thread holds by itself is taken from its stack.
PlacedSizes& PlacedSizes::of_thread() {
  thread_local const std::unique_ptr<PlacedSizes> sizes = std::make_unique<PlacedSizes>();
  return *sizes;
}

// Decisions follow each other; ranks that share a thread take the same ones.
std::size_t PlacedSizes::place_of(std::uint64_t decision, const Coordinate& coordinate) {
  std::uint64_t place = decision;
  for (const std::int64_t index : coordinate) {
    place = place * 31 + static_cast<std::uint64_t>(index);
  }
  return place % kEntries;
}

#ifdef __SANITIZE_THREAD__
// Ranks on one OS thread share the table one after the other: no race, but TSan cannot know.
const OutputMetas* PlacedSizes::find(std::uint64_t, const Coordinate&, const LocalTensors&) const {
  return nullptr;
}

void PlacedSizes::keep(std::uint64_t, const Coordinate&, const LocalTensors&, const OutputMetas&) {}
#else
const OutputMetas* PlacedSizes::find(std::uint64_t decision, const Coordinate& coordinate,
                                     const LocalTensors& pieces) const {
  const Entry& entry = entries_[place_of(decision, coordinate)];
  if (decision == 0 || entry.decision != decision) return nullptr;
  if (entry.coordinate != coordinate || !same_sizes(entry.sizes, pieces)) return nullptr;
  return &entry.metas;
}

void PlacedSizes::keep(std::uint64_t decision, const Coordinate& coordinate,
                       const LocalTensors& pieces, const OutputMetas& metas) {
  Entry& entry = entries_[place_of(decision, coordinate)];
  entry.decision = decision;
  entry.coordinate = coordinate;
  entry.sizes.clear();
  for_each_number(pieces, [&](std::int64_t number) { entry.sizes.push_back(number); });
  entry.metas = metas;
}
#endif

}  // namespace shardlab
