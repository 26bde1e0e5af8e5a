// collective_origins.h - the cause of a collective: the program, or an op whose input had other
// placements.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/log/trace.h"

namespace shardlab {

enum class Origin : std::uint8_t {
  kAsked,     ///< redistribute, full_tensor, all_reduce, ... in the program
  kImplicit,  ///< an op needed an input in another layout
  kInside,    ///< part of the op itself
};

/// The origin of one collective.
struct CollectiveOrigin {
  Origin origin = Origin::kAsked;
  std::string op;        ///< of kImplicit and kInside: "mm"
  std::string argument;  ///< of kImplicit: "mat2"
  bool operator==(const CollectiveOrigin&) const = default;
};

/// One origin for each event; events that are not collectives have the default.
std::vector<CollectiveOrigin> collective_origins(const std::vector<TraceEvent>& events);

/// "asked for", "implicit: mat2 of mm", "inside nll_loss".
std::string to_string(const CollectiveOrigin& origin);
/// "asked", "implicit", "inside".
std::string_view to_string(Origin origin);

}  // namespace shardlab
