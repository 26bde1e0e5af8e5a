// pieces.h - the pieces into which a fold cuts rows, so that enough of a GPU works on few long
// ones. Pure.
#pragma once

#include "backends/cuda/table.h"

namespace shardlab::cuda {

/// Few long rows in pieces, all others in one. It follows from the shape alone, and so does the
/// order of additions. `rows`: at least one.
Pieces pieces_of(std::int64_t rows, std::int64_t size);

}  // namespace shardlab::cuda
