// strict_op.h - the types of an op's results where its pieces have dims: each result is the piece
// of the op on the whole, or a term of it, as the propagation of distributed tensors finds them.
#pragma once

#include <cstdint>
#include <vector>

#include "schema/argument.h"
#include "sim/types/rules.h"

namespace shardlab {

struct OpRow;

/// Along one mesh dim of `size` ranks: `types` are those of the tensor arguments, lists flattened,
/// R, I and S(d) alone, some S(d). One answer for each tensor result, or one refusal. On a rank.
std::vector<TypeAnswer> types_of_pieces(const OpRow& row, const Arguments& args,
                                        std::span<const SpmdType> types, std::int64_t size);

}  // namespace shardlab
