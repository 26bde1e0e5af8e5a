// global_value.h - the whole value of a tensor, put together from all ranks' pieces by the
// definition of placements alone. Shares no code with redistribution: it is what redistribution is
// checked against.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mesh/dtensor.h"

namespace shardlab {

/// Row-major global elements. Exactly one of the vectors is filled: integers and bool as integers,
/// floats as doubles (complex: re, im pairs).
struct GlobalValue {
  TensorMeta meta;
  std::vector<double> reals;
  std::vector<std::int64_t> integers;
  bool is_integral() const { return shardlab::is_integral(meta.dtype); }
};

/// A disagreement inside one value: replicas that differ, or a piece of the wrong shape.
struct AssemblyFault {
  std::string what;  ///< "ranks 0 and 4 hold different replicas"
};

/// `pieces` holds the handle of every rank of the spec's layout, by row-major mesh index. Partials
/// are reduced in f64 (integers exactly). Replicas are compared bitwise; a difference is added to
/// `faults`.
GlobalValue assemble(const DTensorSpec& spec, const std::vector<DTensor>& pieces,
                     std::vector<AssemblyFault>& faults);
/// The value of a plain tensor.
GlobalValue whole_value(const Tensor& tensor);

}  // namespace shardlab
