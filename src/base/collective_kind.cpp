// The names are in the order of the enum.
#include "base/collective_kind.h"

#include <iterator>

namespace shardlab {

std::string_view to_string(CollectiveKind kind) {
  constexpr std::string_view kNames[] = {
      "all_reduce", "all_gather", "reduce",           "reduce_scatter", "all_to_all",
      "broadcast",  "scatter",    "gather",           "permute",        "batch",
      "send",       "recv",       "all_gather_bytes", "barrier",        "split",
  };
  static_assert(std::size(kNames) == kCollectiveKinds);
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace shardlab
