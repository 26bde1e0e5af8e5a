// rules.h - the types that calls on plain tensors give, along one mesh dim, or the rule that
// refuses them: ops, moves, the program's own collectives, losses. Accepted is what the package
// accepts. Pure: a table and types in, an answer out.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/collective_kind.h"
#include "sim/types/spmd_type.h"

namespace shardlab {

/// Whether the dim of S(d) counts. Without it pieces are V.
enum class TypeMode : std::uint8_t { kLocal, kStrict };

/// A type, or a refusal.
struct TypeAnswer {
  std::optional<SpmdType> type;  ///< empty: refused
  std::string rule;              ///< of a refusal: "a sum's terms do not pass an op that .."
  std::string help;              ///< the move that would help; "" if none would
};

/// A tensor that a call reads.
struct TypedOperand {
  SpmdType type;
  bool gets_gradient = true;
};

/// The type of an op's result in local mode. `op`: its name without namespace and overload, as
/// "add" and "add_"; a subscript is "getitem". `number`: a number is an operand, too.
TypeAnswer type_of_op(std::string_view op, std::span<const TypedOperand> operands, bool number);
/// The refusal of a write: `target` would get another type. Nothing if it may. `gets_gradient`: of
/// the target.
std::optional<TypeAnswer> refused_write(const SpmdType& target, bool gets_gradient,
                                        const SpmdType& written);

/// `all_reduce(x, group, src=, dst=)` and the other moves, whose names these are; `expert`: with
/// expert_mode. `own`: the type that x has.
struct TypedMove {
  std::string_view name;
  SpmdType src, dst;
  bool expert = false;
};
TypeAnswer type_of_move(const TypedMove& call, const SpmdType& own, TypeMode mode);
/// Nothing if the function makes a move between these types.
std::optional<TypeAnswer> refused_move(const TypedMove& call);

/// A collective of torch.distributed from an input into a given output, whose type it keeps; that
/// of all_reduce is the input itself.
TypeAnswer type_of_collective(CollectiveKind kind, const SpmdType& input, const SpmdType& output);

/// Nothing if backward() may begin at a loss of this type without a gradient.
std::optional<TypeAnswer> refused_loss(const SpmdType& loss);

}  // namespace shardlab
