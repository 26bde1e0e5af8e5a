// A ring cuts a tensor into n pieces and each hop moves one piece between neighbours, so that all
// links work at once: n - 1 hops bring every piece to one rank, or every rank to every piece.
#include "base/collective_kind.h"

#include <iterator>

namespace shardlab {

namespace {

bool is_single_hop(CollectiveKind kind) {
  return kind == CollectiveKind::kPermute || kind == CollectiveKind::kBatch;
}

}  // namespace

std::string_view to_string(CollectiveKind kind) {
  constexpr std::string_view kNames[] = {
      "all_reduce", "all_gather", "reduce_scatter", "all_to_all",       "broadcast", "scatter",
      "gather",     "permute",    "batch",          "all_gather_bytes", "barrier",   "split",
  };
  static_assert(std::size(kNames) == kCollectiveKinds);
  return kNames[static_cast<std::size_t>(kind)];
}

std::int64_t ring_hops(CollectiveKind kind, std::int64_t n) {
  if (is_single_hop(kind)) return 1;
  return kind == CollectiveKind::kAllReduce ? 2 * (n - 1) : n - 1;
}

double ring_sends(CollectiveKind kind, double size, std::int64_t n) {
  if (is_single_hop(kind)) return size;
  return size * static_cast<double>(ring_hops(kind, n)) / static_cast<double>(n);
}

}  // namespace shardlab
