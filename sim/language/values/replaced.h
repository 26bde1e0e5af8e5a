// replaced.h - a value with other parts in it: what stands in lists, tuples, slices and dicts.
#pragma once

#include <functional>
#include <optional>

#include "sim/language/values/value.h"

namespace shardlab {

/// What takes a value's place, the value itself where it stays as it is. None: its parts are asked
/// for, of a value without parts: it stays.
using PickValue = std::function<std::optional<Value>(const Value& value)>;

/// New lists, tuples, slices and dicts around what `pick` gives, in their order.
Value replaced(const Value& value, const PickValue& pick);

}  // namespace shardlab
