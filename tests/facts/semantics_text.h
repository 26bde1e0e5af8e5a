// semantics_text.h - the parts of programs of recorded behaviour: placements, pieces and tables of
// code by name. Pure text; the recorded cases are in semantics_*.cpp.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>

#include "sim/files/json_value.h"

namespace shardlab::semantics {

/// "m0=S(0), m1=R" for ["S(0)", "R"].
std::string placed(const Json& placements);
bool has_partial(const Json& placements);
/// A whole value cut into pieces.
std::string distributed(std::string_view value, const Json& placements);
/// With a partial among the placements: from_local of each rank's piece plus the rank's number.
/// Otherwise the value cut into pieces.
std::string made(std::string_view value, const Json& placements);
/// A value made with from_local from equal pieces on all ranks.
std::string alike(std::string_view piece, const Json& placements);
/// Placements of a mesh of these sizes: cut along the first mesh dim, whole on the others.
Json rows_of(const Json& mesh);
Json whole_of(const Json& mesh);

inline constexpr std::string_view kFour = "arange(16, dtype=f32).reshape([4, 4])";
inline constexpr std::string_view kFourUp = "(arange(16, dtype=f32).reshape([4, 4]) + 1)";

/// A name and its code.
struct Named {
  std::string_view name;
  std::string_view code;
};
/// The code of that name, or "".
std::string find(std::span<const Named> table, std::string_view name);

/// One kind of recorded case. An empty text: this one is not written down.
struct Case {
  std::string_view name;
  std::string (*write)(const Json& fact);
};
std::span<const Case>
placing_cases();                      ///< distribute, from_local, redistribute; parts of the world
std::span<const Case> layer_cases();  ///< losses, embeddings, convolutions, optimizers, handlers

}  // namespace shardlab::semantics
