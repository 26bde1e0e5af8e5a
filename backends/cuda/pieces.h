// pieces.h - amounts of work that are done at once: rows that a fold cuts, so that enough of a GPU
// works on few long ones, and samples of a convolution, so that memory stays bounded. Pure.
#pragma once

#include "backends/cuda/table.h"

namespace shardlab::cuda {

/// Few long rows in pieces, all others in one. It follows from the shape alone, and so does the
/// order of additions. `rows`: at least one.
Pieces pieces_of(std::int64_t rows, std::int64_t size);

/// Number of samples of which patches are made at once, when each needs so many elements: at least
/// one.
std::int64_t samples_at_once(std::int64_t samples, std::int64_t elements);

}  // namespace shardlab::cuda
