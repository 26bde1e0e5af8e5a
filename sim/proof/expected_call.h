// expected_call.h - the results of a call on one device, read into numbers once, and the comparison
// of a value with them.
#pragma once

#include <string>
#include <vector>

#include "sim/proof/sample_call.h"
#include "sim/verify/global_value.h"

namespace shardlab {

/// A result or a gradient.
struct ExpectedValue {
  bool defined = false;  ///< if false, the other fields have no meaning
  TensorMeta meta;
  GlobalValue single, reference;  ///< in the program's own dtypes and in f64
};

/// Results, then the gradients of the leaves.
struct ExpectedCall {
  std::vector<ExpectedValue> values;
  std::size_t results = 0;  ///< of values: the results of the call
  std::size_t roots = 0;    ///< results that a gradient may flow into
};

/// The same call in both precisions.
ExpectedCall expected_call(const SampleValues& single, const SampleValues& reference);

/// The fault of a value; "" if there is none. `exact`: bit for bit.
std::string difference(const GlobalValue& value, const ExpectedValue& expected, bool exact);
/// The same for a value that the ranks computed in f64, where rounding is no excuse.
std::string difference_in_f64(const GlobalValue& value, const ExpectedValue& expected);

}  // namespace shardlab
