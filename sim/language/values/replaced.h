// replaced.h - a value with other parts in it: the parts of lists, tuples, slices and dicts.
#pragma once

#include <functional>
#include <optional>

#include "sim/language/values/value.h"

namespace shardlab {

/// The replacement of a value, or the value itself. None: its parts are asked for; a value without
/// parts stays.
using PickValue = std::function<std::optional<Value>(const Value& value)>;

/// New lists, tuples, slices and dicts around the results of `pick`, in their order.
Value replaced(const Value& value, const PickValue& pick);

}  // namespace shardlab
