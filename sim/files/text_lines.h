// text_lines.h - texts as lines, and recorded files, plain or compressed.
#pragma once

#include <string>
#include <vector>

namespace shardlab {

// Those that take a path fail with Value when the file is missing, empty or damaged; the message
// names it.

/// The contents of a text file, or of a .gz one.
std::string read_text(const std::string& path);
/// The lines of a text, without their ends.
std::vector<std::string> lines_in(const std::string& text);
/// Those of a file. Blank ones are kept, so that line numbers stay true.
std::vector<std::string> read_lines(const std::string& path);

}  // namespace shardlab
