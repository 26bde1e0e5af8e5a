// The names of the reductions, in the order of the enumeration.
#include "base/reduce_op.h"

#include <array>

namespace shardlab {

namespace {
constexpr std::array<std::string_view, kReduceOpCount> kNames = {"sum",     "avg",  "max", "min",
                                                                 "product", "band", "bor", "bxor"};
}  // namespace

std::string_view to_string(ReduceOp op) { return kNames[static_cast<std::size_t>(op)]; }

std::optional<ReduceOp> parse_reduce_op(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<ReduceOp>(i);
  }
  return std::nullopt;
}

}  // namespace shardlab
