// reference.h - the expected value for a value on a mesh in a test.
#pragma once

#include <vector>

#include "mesh/dtensor.h"

namespace shardlab::testing {

/// Whole, plain values. Made on a rank.
struct Reference {
  enum class Kind : std::uint8_t {
    kProgram,  ///< a single-device run of the program: exact values must agree bitwise
    kGiven,    ///< a value from elsewhere: the envelope holds for floats
  };

  Reference() = default;
  /// A plain tensor: of f64 for the true value, or of the dtype that is compared.
  Reference(DTensor value);  // NOLINT(google-explicit-constructor)
  /// Row-major, in the shape of the compared value.
  Reference(std::vector<double> values);  // NOLINT(google-explicit-constructor)

  Kind kind = Kind::kGiven;
  DTensor single;              ///< in the dtype that is compared; undefined: `exact`, rounded
  DTensor exact;               ///< floats in f64, complex in c128
  std::vector<double> values;  ///< instead of both
};

/// f64 for floats, c128 for complex; others are left as they are.
/// Called on a rank; the result is a new tensor unless the dtype stays.
DTensor widened(const DTensor& plain);

/// A leaf with memory of its own, which requires a gradient if the argument does.
DTensor fresh(const DTensor& plain);

/// The single-device run of `program`: once as it is, once on widened arguments, which makes all of
/// it f64 as long as its dtypes follow its arguments. `plain` are its arguments, equal on all
/// ranks. Each run has copies: it may ask for gradients of them, and train them.
template <typename Program, typename... Tensors>
Reference one_device(Program&& program, const Tensors&... plain) {
  Reference reference;
  reference.kind = Reference::Kind::kProgram;
  const auto run = [&](const auto&... arguments) { return program(arguments...); };
  reference.single = run(fresh(plain)...);
  reference.exact = run(widened(fresh(plain))...);
  return reference;
}

}  // namespace shardlab::testing
