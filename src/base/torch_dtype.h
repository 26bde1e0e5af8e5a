// torch_dtype.h - torch's words for dtypes.
#pragma once

#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace shardlab {

/// The dtype of a word below torch: "float32", "half", "long". Empty if there is none.
std::optional<DType> parse_torch_dtype(std::string_view name);

/// A dtype as users write it: "f32", "float32". Empty if there is none.
std::optional<DType> parse_written_dtype(std::string_view name);

}  // namespace shardlab
