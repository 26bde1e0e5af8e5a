// derive.h - variants of an op that follow mechanically from its base row: in-place and out=
// (design section 3). They share rule, kernel and gradient; only schema and metadata differ.
#pragma once

#include "schema/op_row.h"

namespace shardlab {

/// "aten::add.Tensor" -> "aten::add_.Tensor": writes and returns argument 0.
const OpRow& add_inplace(OpRegistry& registry, const OpRow& base);
/// `overload` names the variant: "out", "grad_input", ... Out arguments are called `out`, or like
/// the base's named returns.
const OpRow& add_out(OpRegistry& registry, const OpRow& base, std::string_view overload);

/// Which variants a table row asks for.
struct Variants {
  bool inplace = false;
  const char* out = nullptr;  ///< overload of the out= variant
};
inline constexpr Variants kNoVariants{};
/// Registers a row with its variants.
const OpRow& add_with_variants(OpRegistry& registry, OpRow row, const Variants& variants);

}  // namespace shardlab
