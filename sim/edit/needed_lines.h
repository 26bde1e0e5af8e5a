// needed_lines.h - the lines that some statements of a program need, by the names in its text.
// Pure.
#pragma once

#include <set>
#include <vector>

#include "sim/edit/program_lines.h"

namespace shardlab {

/// The names in a line: all, and those before the `=` of an assignment; of a statement that has
/// none all are given, since it may change any of them.
struct NamesOfLine {
  explicit NamesOfLine(const ProgramLine& line);
  std::set<std::string> all, given;
};

/// For each line whether one of `wanted` (as ProgramLine::from counts them) may need it: it gives a
/// value to a name that is read there, changes what such a name holds, or is the header of a block
/// around. Lines that give names nobody needs are not.
std::vector<bool> needed_lines(const ProgramLines& lines, const std::set<int>& wanted);

}  // namespace shardlab
