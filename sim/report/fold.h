// fold.h - lines of a report for a terminal that is narrower than they are.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shardlab {

/// Lines of more than `width` characters end at a blank and go on below, indented by four more than
/// they began. Colours take no width. A figure and its unit stay
/// together, and a part without blanks is whole.
std::string fold_lines(std::string_view text, std::size_t width);

}  // namespace shardlab
