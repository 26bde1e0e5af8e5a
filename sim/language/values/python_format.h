// python_format.h - what stands behind the colon in the field of an f-string.
#pragma once

#include <string>
#include <string_view>

#include "sim/language/values/value.h"

namespace shardlab {

/// format(value, spec) of Python 3.11, of ints, bools, floats and strings; everything else is
/// formatted as its str(). Types c and n, and the option z, are left out.
///   fails  Value: a spec that is none, or not one for such a value
std::string python_format(const Value& value, std::string_view spec);

}  // namespace shardlab
