// Labels in cells of one width, a line at each change of the block, and a colour per label in the
// order of first use.
#include "sim/report/grid.h"

#include <algorithm>
#include <array>
#include <map>

namespace shardlab {
namespace {

constexpr std::string_view kSkipped = "...";
/// Backgrounds of the 256-colour palette on which black text is easy to read.
constexpr std::array<int, 12> kBackgrounds = {117, 222, 120, 218, 183, 216,
                                              158, 229, 152, 181, 147, 187};

struct Widths {
  std::size_t header = 0;  // of the rows' headers
  std::size_t cell = 1;    // of every label and column header
};

Widths widths_of(const Grid& grid) {
  Widths widths;
  widths.header = grid.row_title.size();
  for (const GridLine& row : grid.rows) {
    widths.header = std::max(widths.header, row.skipped ? kSkipped.size() : row.header.size());
  }
  for (const GridLine& column : grid.columns) {
    widths.cell = std::max(widths.cell, column.skipped ? kSkipped.size() : column.header.size());
  }
  for (const auto& row : grid.labels) {
    for (const std::string& label : row) widths.cell = std::max(widths.cell, label.size());
  }
  return widths;
}

struct Drawing {
  std::string draw() {
    if (!grid_.column_title.empty()) {
      text_ += fmt::format("  {:{}}  {}\n", "", widths_.header, grid_.column_title);
    }
    text_ += fmt::format("  {:>{}} ", grid_.row_title, widths_.header);
    for (std::size_t column = 0; column < grid_.columns.size(); ++column) {
      if (boundary(grid_.columns, column)) text_ += ' ';
      const GridLine& line = grid_.columns[column];
      text_ += fmt::format(" {:^{}} ", line.skipped ? kSkipped : line.header, widths_.cell);
    }
    end_line();
    for (std::size_t row = 0; row < grid_.rows.size(); ++row) {
      if (boundary(grid_.rows, row)) draw_rule();
      draw_row(grid_.rows[row]);
    }
    return std::move(text_);
  }

  static bool boundary(const std::vector<GridLine>& lines, std::size_t index) {
    return index > 0 && lines[index].block != lines[index - 1].block;
  }

  void end_line() {
    while (text_.ends_with(' ')) text_.pop_back();
    text_ += '\n';
  }

  void draw_rule() {
    text_ += fmt::format("  {:{}} ", "", widths_.header);
    for (std::size_t column = 0; column < grid_.columns.size(); ++column) {
      if (boundary(grid_.columns, column)) text_ += "┼";
      for (std::size_t i = 0; i < widths_.cell + 2; ++i) text_ += "─";
    }
    end_line();
  }

  void draw_row(const GridLine& row) {
    text_ += fmt::format("  {:>{}} ", row.skipped ? kSkipped : row.header, widths_.header);
    for (std::size_t column = 0; column < grid_.columns.size(); ++column) {
      if (boundary(grid_.columns, column)) text_ += "│";
      const GridLine& line = grid_.columns[column];
      if (row.skipped || line.skipped) {
        text_ += fmt::format(" {:^{}} ", kSkipped, widths_.cell);
      } else {
        draw_cell(grid_.labels[row.block][line.block]);
      }
    }
    end_line();
  }

  void draw_cell(const std::string& label) {
    const std::string cell = fmt::format(" {:^{}} ", label, widths_.cell);
    if (color_ == Color::kOff) {
      text_ += cell;
      return;
    }
    const auto found = colors_.emplace(label, kBackgrounds[colors_.size() % kBackgrounds.size()]);
    text_ += fmt::format("\x1b[48;5;{}m\x1b[38;5;16m{}\x1b[0m", found.first->second, cell);
  }

  const Grid& grid_;
  Color color_;
  Widths widths_ = widths_of(grid_);
  std::string text_;
  std::map<std::string, int> colors_;
};

}  // namespace

std::string draw_grid(const Grid& grid, Color color) { return Drawing{grid, color}.draw(); }

std::int64_t grid_width(const Grid& grid) {
  const Widths widths = widths_of(grid);
  std::size_t lines = 0;
  for (std::size_t i = 1; i < grid.columns.size(); ++i) {
    lines += grid.columns[i].block != grid.columns[i - 1].block ? 1 : 0;
  }
  return static_cast<std::int64_t>(3 + widths.header + grid.columns.size() * (widths.cell + 2) +
                                   lines);
}

}  // namespace shardlab
