// tensor_parallel.h - linear layers of a program that are cut by columns or by rows, as Megatron
// does it: the second of a pair takes the cut result of the first, and nothing between them needs
// the whole.
#pragma once

#include <map>

#include "sim/remesh/call_program.h"

namespace shardlab {

/// The new form of a statement that has a weight.
enum class LayerCut : std::uint8_t {
  kNone,
  kColumn,    ///< rows of the weight, as torch stores it: its result is cut
  kRow,       ///< columns of the weight: its result is a pending sum
  kHead,      ///< as kColumn; the result is gathered for the loss
  kEmbedding  ///< rows of the table: its result is a pending sum
};

/// Cuts of layers, by index of the statement.
std::map<std::size_t, LayerCut> tensor_parallel_cuts(const CallProgram& program);

}  // namespace shardlab
