// text_lines.h - the lines of a recorded file, plain or compressed.
#pragma once

#include <string>
#include <vector>

namespace shardlab {

/// All lines of a text file, or of a .gz one. Blank lines are kept, so that line numbers stay true.
/// Fails with Value when the file is missing, empty or damaged; the message names it.
std::vector<std::string> read_lines(const std::string& path);

}  // namespace shardlab
