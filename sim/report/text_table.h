// text_table.h - a plain table of texts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardlab {

using TableRow = std::vector<std::string>;

/// Columns padded to their widest cell. `sides` has '<' or '>' for each column, the last for all
/// after it: on the left or on the right of its column.
std::string text_table(const std::vector<TableRow>& rows, std::string_view sides,
                       std::string_view indent);

}  // namespace shardlab
