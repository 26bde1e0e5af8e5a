// step_elements.h - the elements that a recording has of a value: raw bytes, one number for all, or
// a formula.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "sim/record/json.h"
#include "tensor/scalar.h"

namespace shardlab {

/// `fill` of an input, {"seed", "bias", "scale"} or {"seed", "mod"}: its row-major elements, of a
/// complex one both parts (tests/golden/facts/programs/README.md has the formula).
std::vector<double> formula_elements(const Json& fill, DType dtype, std::int64_t count);

/// The bytes of so many elements of a recorded value, whose "raw" is a range of `raw`, those of the
/// whole file.
///   fails  Value: they are outside of it
std::string_view stored_bytes(std::string_view raw, const Json& value, DType dtype,
                              std::int64_t count);
/// Elements that are stored in this dtype.
std::vector<Scalar> stored_scalars(std::string_view bytes, DType dtype);

/// Row-major elements of a recorded value; none if the file has none. `raw`: the elements of the
/// whole file, in whose range "raw" is.
std::optional<std::vector<Scalar>> step_elements(std::string_view raw, const Json& value,
                                                 DType dtype, std::int64_t count);

}  // namespace shardlab
