// The names are in the order of the enumerations.
#include "base/policies.h"

#include <algorithm>

namespace shardlab {

std::string_view policy_name(ImplicitRedistribution implicit) {
  return kImplicitNames[static_cast<std::size_t>(implicit)];
}

std::optional<ImplicitRedistribution> parse_implicit(std::string_view name) {
  const auto found = std::ranges::find(kImplicitNames, name);
  if (found == kImplicitNames.end()) return std::nullopt;
  return static_cast<ImplicitRedistribution>(found - kImplicitNames.begin());
}

std::string_view policy_name(MixedTensors mixed) {
  return mixed == MixedTensors::kRefuse ? "refuse" : "replicate";
}

}  // namespace shardlab
