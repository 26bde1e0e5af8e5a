// sample_inputs.h - the inputs of samples, by their contents. For the tables of samples.
#pragma once

#include <utility>

#include "sim/proof/op_samples.h"

namespace shardlab::samples {

using List = ArgumentList;

inline SampleInput real(Dims shape) { return {std::move(shape), Fill::kReal}; }
inline SampleInput unit(Dims shape) { return {std::move(shape), Fill::kUnit}; }
inline SampleInput truth(Dims shape) { return {std::move(shape), Fill::kBool}; }
/// In [0, limit), and in [1, limit].
inline SampleInput index(Dims shape, std::int64_t limit) {
  return {std::move(shape), Fill::kIndex, limit};
}
inline SampleInput pivots(Dims shape, std::int64_t limit) {
  return {std::move(shape), Fill::kCount, limit};
}

}  // namespace shardlab::samples
