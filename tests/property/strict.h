// strict.h - the property tests' own judge, which shares nothing with the verdict that users get:
// integers and bools bit for bit, values that must agree bitwise likewise, floats within roundings
// of the sums that made them, or four times the error of one device.
#pragma once

#include <string>

#include "sim/verify/global_value.h"

namespace shardlab::test {

/// `single`: the single-device run of the same call; `reference`: likewise in f64. `exact`:
/// computed by movement and pointwise ops alone. Empty when right.
std::string strict_difference(const GlobalValue& got, const GlobalValue& single,
                              const GlobalValue& reference, bool exact);

}  // namespace shardlab::test
