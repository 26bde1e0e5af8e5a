// rule_text.h - sharding rules as a person would write them.
#pragma once

#include <string>

#include "schema/op_row.h"

namespace shardlab {

/// The rule in its own notation: "mk,kn->mn", "pointwise, passes sum,sum->sum", ...
std::string rule_text(const OpRow& row);
/// Its rows on one mesh dim: "S(0), R -> S(0) | R, S(1) -> S(1) | ...". Where they depend on the
/// call, those of an example, which is named in front: "of [8, 8, 8], dim=1: ...". Empty when
/// there are no rows to show.
std::string rule_rows_text(const OpRow& row);

}  // namespace shardlab
