// npy.h - reads NumPy's .npy files (format versions 1 to 3, little-endian, C order).
#pragma once

#include <string>
#include <vector>

#include "base/inline_vector.h"
#include "sim/scenario/scenario.h"

namespace shardlab {

/// An array as the file holds it, with integers and floats kept apart.
struct NpyArray {
  Dims shape;
  std::vector<Scalar> numbers;  ///< row-major
};

///   fails  Value: cannot be read, not an .npy file, Fortran order, big-endian or another dtype
NpyArray read_npy(const std::string& path);

/// A path as a scenario gives it: relative to the folder of the scenario.
std::string path_beside(const std::string& scenario, const std::string& file);

/// The elements of an input with `file =`.
///   fails  ScenarioError at the input: as read_npy; another shape than the input's type
std::vector<Scalar> read_input_file(const std::string& scenario, const ScenarioInput& input);

}  // namespace shardlab
