// reduce_op.h - reductions that combine pending terms (M-4, K-14).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace shardlab {

/// kAvg divides the sum by the number of terms; bit operations are for integers and bool.
enum class ReduceOp : std::uint8_t {
  kSum,
  kAvg,
  kMax,
  kMin,
  kProduct,
  kBitAnd,
  kBitOr,
  kBitXor,
};
/// For tables by op.
inline constexpr int kReduceOpCount = 8;

/// "sum" "avg" "max" "min" "product" "band" "bor" "bxor".
std::string_view to_string(ReduceOp op);
/// Reads what to_string() prints. Empty when unknown.
std::optional<ReduceOp> parse_reduce_op(std::string_view name);

}  // namespace shardlab
