// strided_bytes.h - elements in bytes, by offset and strides, as storages of PyTorch have them:
// the one reader of elements of all formats. Their types have all names that formats give them;
// some are only copied: the program computes with the others.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"
#include "base/inline_vector.h"
#include "sim/checkpoint/file_bytes.h"

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

/// The part of a tensor that begins at `from` and has this shape.
struct Box {
  Dims from, shape;
};
/// "[0:4, 2:3]".
std::string text_of(const Box& box);
/// The common part; without elements if there is none.
Box common_part(const Box& a, const Box& b);

struct StridedBytes {
  FileBytes bytes;
  std::int64_t item = 1;    ///< bytes of one
  std::int64_t offset = 0;  ///< of the first one, in elements
  Dims shape, stride;       ///< strides in elements, at least 0

  /// The memory of all is then at most that of the bytes, or 16 MiB.
  ///   fails  Value: an element outside of the bytes, or more elements than they hold
  void check() const;
  /// Copies a part, which is inside of the shape, to places `out_stride` elements apart, while it
  /// holds at most 4 MiB more. After check().
  ///   fails  Value: the file is cut short
  void read(const Box& part, char* out, const Dims& out_stride) const;
};

}  // namespace shardlab
