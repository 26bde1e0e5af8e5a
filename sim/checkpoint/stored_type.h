// stored_type.h - element types of files, under all names that formats give them. Some are only
// copied: the program computes with the others.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace shardlab {

struct StoredType {
  std::string_view name;         ///< in type strings: "f32"
  std::string_view safetensors;  ///< "F32"; empty: the format has none
  std::string_view torch;        ///< "float32"
  std::string_view storage;      ///< torch's class: "FloatStorage"; empty: none
  std::string_view numpy;        ///< "<f4"; empty: none
  std::int64_t bytes;            ///< of one element
  std::optional<DType> dtype;    ///< empty: no kernel takes it
};

/// The type that has this text in this column: stored_type(&StoredType::torch, "float32"). Null if
/// there is none.
const StoredType* stored_type(std::string_view StoredType::*column, std::string_view text);
const StoredType& stored_type(DType dtype);

}  // namespace shardlab
