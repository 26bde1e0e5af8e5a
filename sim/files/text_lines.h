// text_lines.h - recorded files, plain or compressed.
#pragma once

#include <string>
#include <vector>

namespace shardlab {

// Both fail with Value when the file is missing, empty or damaged; the message names it.

/// The contents of a text file, or of a .gz one.
std::string read_text(const std::string& path);
/// All of its lines. Blank ones are kept, so that line numbers stay true.
std::vector<std::string> read_lines(const std::string& path);

}  // namespace shardlab
