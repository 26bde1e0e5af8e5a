// Blanks at the end of a line are left out.
#include "sim/report/text_table.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>

namespace shardlab {

std::string text_table(const std::vector<TableRow>& rows, std::string_view sides,
                       std::string_view indent) {
  std::vector<std::size_t> widths;
  for (const TableRow& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const TableRow& row : rows) {
    std::string line(indent);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool left = sides[std::min(i, sides.size() - 1)] == '<';
      line += left ? fmt::format("{:<{}}  ", row[i], widths[i])
                   : fmt::format("{:>{}}  ", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace shardlab
