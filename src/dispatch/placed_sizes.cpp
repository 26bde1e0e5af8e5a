// Numbers of decisions are never used twice, so that an entry whose decision was forgotten is only
// dead, and cannot be taken for that of another one.
#include "dispatch/placed_sizes.h"

#include <algorithm>
#include <memory>

namespace shardlab {
namespace {

constexpr std::int64_t kUndefined = -1;

/// Calls visit(number) for the numbers that identify sizes of pieces, of each the number of dims,
/// then sizes, until it returns false; false then.
bool all_numbers(const LocalTensors& pieces, auto visit) {
  for (const Tensor& piece : pieces) {
    if (!piece.defined()) {
      if (!visit(kUndefined)) return false;
      continue;
    }
    const Dims& shape = piece.shape();
    if (!visit(static_cast<std::int64_t>(shape.size()))) return false;
    if (!std::ranges::all_of(shape, visit)) return false;
  }
  return true;
}

bool same_sizes(const InlineVector<std::int64_t, 8>& sizes, const LocalTensors& pieces) {
  const std::int64_t *at = sizes.begin(), *const end = sizes.end();
  const auto is_next = [&](std::int64_t number) { return at != end && *at++ == number; };
  return all_numbers(pieces, is_next) && at == end;
}

}  // namespace

// On the heap: thread-local objects are taken from the thread's stack.
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
// Ranks on one OS thread share the table one after the other: no race, but TSan cannot detect that.
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
  all_numbers(pieces, [&](std::int64_t number) {
    entry.sizes.push_back(number);
    return true;
  });
  entry.metas = metas;
}
#endif

}  // namespace shardlab
