// elements.h - elements of recorded values: raw bytes, one number for all, or a formula.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tensor/scalar.h"

namespace shardlab {

/// Elements of a value, or of a rank's piece of it; row-major.
struct RecordedElements {
  enum class Stored : std::uint8_t { kNowhere, kBytes, kEqual, kFormula };
  Stored stored = Stored::kNowhere;
  bool whole = false;             ///< kBytes: of the whole, which ranks cut
  std::size_t at = 0, bytes = 0;  ///< kBytes: a part of RecordedProgram::raw, little-endian
  double value = 0;               ///< kEqual
  std::int64_t seed = 0;          ///< kFormula
  std::int64_t below = 0;         ///< kFormula: integers are smaller than this
  double bias = 0, scale = 0;     ///< kFormula: floats
};

/// Row-major elements that are equal or follow a formula, of a complex dtype both parts.
/// sim/record_torch/format.md has the formula.
std::vector<double> equal_or_formula(const RecordedElements& elements, DType dtype,
                                     std::int64_t count);
/// Elements that are stored in this dtype.
std::vector<Scalar> stored_scalars(std::string_view bytes, DType dtype);
/// Row-major elements of a value, however they are stored; `raw` is the program's.
///   fails  Value: there are none, or fewer
std::vector<Scalar> scalars_of(const RecordedElements& elements, std::string_view raw, DType dtype,
                               std::int64_t count);

}  // namespace shardlab
