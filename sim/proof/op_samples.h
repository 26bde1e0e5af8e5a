// op_samples.h - one sample call per op and kind of arguments, small and uneven: what is placed in
// every way, or at random, to see whether the op gives what it gives on one device.
#pragma once

#include <span>
#include <vector>

#include "schema/argument.h"

namespace shardlab {

/// What an input holds.
enum class Fill : std::uint8_t {
  kReal,   ///< (-2, 2)
  kUnit,   ///< (0.1, 0.9)
  kIndex,  ///< integers in [0, limit)
  kCount,  ///< integers in [1, limit]
  kBool,
};

struct SampleInput {
  Dims shape;
  Fill fill = Fill::kReal;
  std::int64_t limit = 0;
};

/// Arguments in schema order, missing ones take the schema's defaults; "$0" is the first input.
struct OpSample {
  const char* op;
  std::vector<SampleInput> inputs;
  Arguments args;
};

std::span<const OpSample> op_samples();
/// Those of ops that are programs over other ops; part of op_samples().
std::vector<OpSample> program_samples();
/// Some of them: normalisation, transforms, factorisations, attention, recurrent layers.
void add_layer_samples(std::vector<OpSample>& samples);

}  // namespace shardlab
