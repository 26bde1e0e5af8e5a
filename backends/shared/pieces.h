// pieces.h - the places of the pieces of a collective in the whole, along one tensor dim.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/call.h"

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

}  // namespace shardlab::backends
