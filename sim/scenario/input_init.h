// input_init.h - the ways to make an input that a file may name, for its readers.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "sim/scenario/scenario.h"

namespace shardlab {

struct InitRow {
  std::string_view name;  ///< "randint"
  InputInit init;
  std::size_t fewest, most;  ///< arguments
};

/// All of them. Values that a file lists itself (kValues, kFile) have no row.
std::span<const InitRow> init_rows();
/// Null for another name.
const InitRow* find_init(std::string_view name);

}  // namespace shardlab
