// value_bytes.h - values of a program as bytes, which ranks send to each other: None, bools,
// numbers, strings, and lists, tuples and dicts of these. Read on the machine that wrote them.
#pragma once

#include <string>
#include <string_view>

#include "sim/language/values/value.h"

namespace shardlab {

///   fails  Value: a tensor, a function, or any other value that is not plain
std::string bytes_of(const Value& value);
/// New containers.
Value value_of_bytes(std::string_view bytes);

}  // namespace shardlab
