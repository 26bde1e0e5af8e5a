// factor_rule.h - rules that users write as text.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/computation.h"
#include "schema/meta_args.h"
#include "schema/sharding_rule.h"

namespace shardlab {

class OpRegistry;

/// Gives an op the rule "mk,kn->mn": one operand for each tensor it is called with, one letter per
/// dim. Letters of the result shard; letters that only operands have give a pending sum; `_` is a
/// dim that is whole, `...` dims that pass. Behind "; linear_in=" are the operands that terms of a
/// sum may be in: (0, 1) in each by itself, as without it, ((0, 1),) in both at once, () in none. A
/// composite op is then decided as a whole, and taken apart where the rule is not for the call.
///   fails  Unsupported: no such op. Value: not of this form, or for another number of tensors.
void set_factor_rule(OpRegistry& registry, std::string_view op, std::string rule);

/// A program that computes an op on pieces under such a rule, and the letters that it makes up for:
/// along a letter that only operands have, and that is cut, its results are whole. Along others
/// they are terms of a sum. The op is not taken to be linear: pending reductions are carried out
/// before the call.
struct FactorProgram {
  PiecesProgram run;
  std::string made_up;
};
/// The rule with a program in place of the op's own kernel.
///   fails  as set_rule with a program
void set_factor_rule(OpRegistry& registry, std::string_view op, std::string rule,
                     FactorProgram program);

/// In a program of a factor rule: the mesh dims that cut the dim of this letter, first cut first.
InlineVector<std::size_t, 4> mesh_dims_of(const OnPieces& call, char letter);

/// "mk,kn->mn" of a rule with or without its "; linear_in=..".
std::string_view equation_of(std::string_view rule);
/// The groups of operands that a rule of so many is linear in. Fails with Value for another form.
std::vector<std::vector<std::size_t>> linear_in(std::string_view rule, std::size_t operands);
/// An equation with letters in place of `...`, for operands of so many dims, added ones included.
std::string without_ellipsis(std::string_view equation, std::span<const std::size_t> ndims);

/// The result of an op that has no metadata function but such a rule: sizes by letter, dtype as the
/// operands' together. Fails with Value when operands disagree about a size.
OutputMetas factor_metas(const FactorRule& rule, const MetaArgs& args);

}  // namespace shardlab
