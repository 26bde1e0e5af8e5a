// sample_call.h - the call of a sample: its inputs, its results, and their gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "mesh/dtensor.h"
#include "schema/calls.h"
#include "sim/proof/read_samples.h"

namespace shardlab {

struct OpRow;

/// The seed of the random ops: every call of a sample draws from the beginning of its stream.
inline constexpr std::uint64_t kProofRandomSeed = 11;

/// An input, equal on every rank that asks: its elements depend on seed and slot alone, and every
/// dtype of floats holds them exactly. Made on the device of the rank that runs.
Tensor sample_input(const OpSample& sample, std::size_t slot, std::uint64_t seed, DType floats);
/// The gradient that flows into a result of this shape and dtype.
Tensor sample_gradient(const Dims& shape, std::uint64_t seed, DType dtype);

/// `argument` with `value(n)` in place of each text "$n", in lists too.
Argument filled_in(const Argument& argument,
                   const std::function<Argument(std::size_t number)>& value);
/// The sample's arguments with `inputs` in place of "$0", "$1", ...
Arguments filled_in(const Arguments& args, const std::vector<DTensor>& inputs);
/// All tensors, those in lists too.
std::vector<DTensor> tensors_of(const Results& results);
/// True when the input is an out= tensor of the call, whose elements are never read.
bool is_out(const OpSample& sample, const OpRow& row, std::size_t slot);
/// A gradient of its own, that of the op it is a variant of, or the gradients of its parts.
bool has_gradient(const OpRow& row);

/// The gradient of a result, placed where the caller wants it.
using GradientOf = std::function<DTensor(const DTensor& result)>;
/// The tensors that the call returns and writes, then the gradients of `leaves` (undefined: none)
/// for a gradient of result `root` modulo the number of those that require one. Nothing is written
/// into `inputs`.
struct SampleValues {
  std::vector<DTensor> values;
  std::size_t results = 0;  ///< of values: results and written tensors
  std::size_t roots = 0;    ///< results that a gradient may flow into
};
SampleValues call_sample(const OpSample& sample, const std::vector<DTensor>& inputs,
                         const std::vector<DTensor>& leaves, std::size_t root,
                         const GradientOf& gradient);

}  // namespace shardlab
