// rank_value.h - values that differ between the ranks of one run (shape-only worlds): arithmetic on
// them is put off, and ranks become different classes only where its result decides something.
#pragma once

#include <cstdint>
#include <functional>

#include "sim/language/values/value.h"

namespace shardlab {

/// A value that is `at(rank)` on each rank and `at(running)` on the one that runs.
Value rank_value(std::function<Value(std::int64_t rank)> at, std::int64_t running);

/// Whether it is a RankValue or holds one: lists, tuples, dicts and slices are looked into.
bool varies(const Value& value);
bool varies(const Values& values);
/// The value with all that varies as it is on `rank`, and as it is on the rank that runs.
Value at_rank(const Value& value, std::int64_t rank);
Value here(const Value& value);

/// compute(operands), put off while an operand varies. Pure: it is called again for other ranks.
Value lift(Values operands, std::function<Value(const Values&)> compute);

/// Equal for equal values; one number for all ranks whose computation fails.
std::uint64_t fingerprint(const std::function<Value()>& compute);

}  // namespace shardlab
