// pieces.h - the places of the pieces of a collective in the whole, along one tensor dim, and their
// memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/call.h"
#include "tensor/device.h"

namespace shardlab::backends {

/// A stretch of one tensor dim, in elements; may be empty.
struct Range {
  std::int64_t offset;
  std::int64_t size;
};

/// The piece of group rank `index`, which must be one of the group: pieces follow each other in
/// group order. Time in proportion to `index`.
inline Range piece_of(Lengths lengths, std::size_t index) {
  Range range{0, lengths[index]};
  for (std::size_t i = 0; i < index; ++i) range.offset += lengths[i];
  return range;
}

/// A shape with another size along one dim; one without dims stays.
inline Dims with_size(Dims shape, std::int64_t dim, std::int64_t size) {
  if (!shape.empty()) shape[static_cast<std::size_t>(dim)] = size;
  return shape;
}

/// The place of the first element.
inline std::byte* address(const Tensor& x) {
  return static_cast<std::byte*>(x.storage()->buffer()->data()) +
         x.offset() * item_bytes(x.dtype());
}

inline void copy(const Tensor& to, const Tensor& from) {
  if (from.numel() > 0 && !to.device()->shape_only()) to.device()->copy(to, from);
}

}  // namespace shardlab::backends
