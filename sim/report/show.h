// show.h - the holders of a tensor: the drawing of `shardlab show`. Pure text from a spec; no world
// runs. Abridged drawings say how much they leave out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mesh/spec.h"

namespace shardlab {

/// Whether text may hold ANSI sequences.
enum class Color : std::uint8_t { kOff, kOn };

/// The size of a drawing.
struct DrawOptions {
  Color color = Color::kOff;    ///< ANSI colours; labels are drawn either way
  std::int64_t width = 100;     ///< columns of the terminal
  std::int64_t max_ranks = 32;  ///< rows of the per-rank table; more are abridged
};

/// A header with the meaning of every mesh dim, the tensor as a grid of cells or blocks labelled
/// with the ranks that hold them (1-d and 2-d tensors), a table per rank, totals and imbalance. In
/// labels "0,3" are replicas, "0+3" terms of a pending reduction.
std::string draw_spec(const DTensorSpec& spec, const DrawOptions& options);
/// The drawing alone; of tensors that can't be drawn, the table per rank.
std::string draw_pieces(const DTensorSpec& spec, const DrawOptions& options);
/// The drawing of pieces by the rank of each; empty if the tensor can't be drawn.
std::string draw_holdings(const Dims& shape, const std::vector<struct Holding>& holdings,
                          const DrawOptions& options);
/// The same facts as JSON text, all ranks up to 65,536 of them.
std::string json_of_spec(const DTensorSpec& spec);

}  // namespace shardlab
