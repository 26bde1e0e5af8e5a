// grid.h - a table of labelled, coloured cells with lines between different owners.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/report/show.h"

namespace shardlab {

/// One row or column of the drawing.
struct GridLine {
  std::string header;
  std::size_t block = 0;  ///< number of its block; a line is drawn at each change
  bool skipped = false;   ///< in place of blocks that are left out
};

/// A drawing before it is drawn: titles, rows and columns, and a label per block.
struct Grid {
  std::string row_title, column_title;
  std::vector<GridLine> rows, columns;
  /// labels[row block][column block]; equal labels have equal colours.
  std::vector<std::vector<std::string>> labels;
};

/// Lines end with a newline and are indented by two columns.
std::string draw_grid(const Grid& grid, Color color);
/// Columns that draw_grid needs.
std::int64_t grid_width(const Grid& grid);

}  // namespace shardlab
