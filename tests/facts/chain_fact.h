// chain_fact.h - one line of the chain facts (tests/golden/facts/chains/README.md): a short program
// and the reference's results on a single device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/inline_vector.h"
#include "sim/files/json.h"

namespace shardlab {

/// A whole tensor as recorded, row-major. Exactly one of the vectors is filled: integers and bool
/// as integers, floats as doubles that `dtype` can hold.
struct ChainTensor {
  DType dtype = DType::kF32;
  Dims shape;
  std::vector<double> reals;
  std::vector<std::int64_t> integers;
};

/// A tensor that the program is given.
struct ChainInput {
  std::string name;
  ChainTensor value;
  bool requires_grad = false;
};

/// A value that the program must have made, or a gradient that it must not have.
struct ChainExpected {
  std::string name;                  ///< "y", "parts[1]", "a.grad"
  std::optional<ChainTensor> value;  ///< none: a gradient that must not exist
};

/// A program, its inputs, and the reference's results.
struct ChainFact {
  std::string id;
  std::string program;
  std::vector<ChainInput> inputs;     ///< by name
  std::vector<ChainExpected> values;  ///< of names at the end, and of every input
  std::vector<ChainExpected> gradients;
  std::int32_t error_line = 0;  ///< from 1: where the reference refuses the program; 0: nowhere
  DType coarsest = DType::kF32;
  bool signed_zero = false;  ///< the sign of zero counts
  std::vector<std::string> tags;
};

///   fails  Json::exception or Value: not a line of this kind
ChainFact chain_fact(const Json& line);

/// The largest difference of a float, relative to the largest finite expected one.
///   fails  Value: a dtype that the facts know no tolerance for
double chain_tolerance(DType coarsest);

}  // namespace shardlab
