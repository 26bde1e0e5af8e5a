// strided_bytes.h - elements in bytes, by offset and strides, as storages of PyTorch have them:
// the one reader of elements of all formats.
#pragma once

#include <cstdint>

#include "base/inline_vector.h"
#include "sim/checkpoint/file_bytes.h"

namespace shardlab {

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
