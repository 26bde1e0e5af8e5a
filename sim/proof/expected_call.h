// expected_call.h - what one device has from a call, read into numbers once, and how a value is
// held against it.
#pragma once

#include <string>
#include <vector>

#include "sim/proof/sample_call.h"
#include "sim/verify/global_value.h"

namespace shardlab {

/// A result or a gradient.
struct ExpectedValue {
  bool defined = false;  ///< else the rest says nothing
  TensorMeta meta;
  GlobalValue single, reference;  ///< in the program's own dtypes and in f64
};

/// Results, then the gradients of the leaves.
struct ExpectedCall {
  std::vector<ExpectedValue> values;
  std::size_t results = 0;  ///< of values: what the call gave
  std::size_t roots = 0;    ///< results that a gradient may flow into
};

/// The same call in both precisions.
ExpectedCall expected_call(const SampleValues& single, const SampleValues& reference);

/// What is wrong with a value; "" where nothing is. `exact`: bit for bit.
std::string difference(const GlobalValue& value, const ExpectedValue& expected, bool exact);
/// The same of a value that the ranks computed in f64, where rounding is no excuse.
std::string difference_in_f64(const GlobalValue& value, const ExpectedValue& expected);

}  // namespace shardlab
