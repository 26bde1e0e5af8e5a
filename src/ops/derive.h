// derive.h - variants of an op that follow mechanically from its base row: in-place and out=
// (src/README.md, "An op is one row"). They share rule, kernel and gradient; only schema and
// metadata differ.
#pragma once

#include "schema/op_row.h"

namespace shardlab {

/// "aten::add.Tensor" -> "aten::add_.Tensor": writes and returns argument 0. `base` is a registered
/// row.
OpRow inplace_variant(const OpRow& base, std::string_view overload);
/// `overload` names the variant: "out", "grad_input", ... Out arguments are called `out`, or like
/// the base's named returns; where they are not, it is the variant's whole schema.
OpRow out_variant(const OpRow& base, std::string_view overload);

/// Which variants a table row asks for.
struct Variants {
  bool inplace = false;
  const char* out = nullptr;  ///< overload of the out= variant, or its schema
};
inline constexpr Variants kNoVariants{};
/// Registers a row with its variants.
const OpRow& add_with_variants(OpRegistry& registry, OpRow row, const Variants& variants);

}  // namespace shardlab
