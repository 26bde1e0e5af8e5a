// einsum_type.h - `rules.einsum` of spmd_types: the types that an op of a user's own gives, written
// as an einsum. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/types/rules.h"

namespace shardlab {

/// "mk,kn->mn": a letter for each dim; a letter that the result lacks is summed over. `_` is a dim
/// that must be whole, `...` dims that every operand has and that pass.
struct EinsumText {
  std::vector<std::string> operands;
  std::string result;
  std::string text;  ///< as written, for messages
};
/// Fails with Value for text of another form.
EinsumText parse_einsum(std::string_view text);
/// The same with a letter in place of each dim of `...`; `ndims`: of the operands. Fails with Value
/// for operands of other sizes.
EinsumText without_ellipsis(const EinsumText& text, std::span<const std::size_t> ndims);

/// Positions of operands that terms may be in: {{0}, {1}} linear in each, {{0, 1}} in both at once.
using LinearIn = std::vector<std::vector<std::size_t>>;

/// Along one mesh dim. `text` has no ellipsis; one type for each operand.
TypeAnswer type_of_einsum(const EinsumText& text, const LinearIn& linear_in,
                          std::span<const SpmdType> types);

}  // namespace shardlab
