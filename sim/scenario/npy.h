// npy.h - reads NumPy's .npy files (format versions 1 to 3, little-endian, C order).
#pragma once

#include <string>
#include <vector>

#include "base/inline_vector.h"
#include "sim/scenario/numbers.h"

namespace shardlab {

struct NpyArray {
  Dims shape;
  std::vector<Number> numbers;  ///< row-major
};

///   fails  Value: cannot be read, not an .npy file, Fortran order, big-endian or another dtype
NpyArray read_npy(const std::string& path);

}  // namespace shardlab
