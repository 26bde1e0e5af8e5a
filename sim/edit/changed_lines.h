// changed_lines.h - an edit of a text as lines before and after, for people and for programs that
// make it. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/language/syntax/source.h"
#include "sim/report/paint.h"

namespace shardlab {

/// Lines of the program before and after, all of them different; either may be none.
struct ChangedLines {
  std::int64_t line = 0;  ///< of the file: the first, before the edit
  std::vector<std::string> before, after;
};

/// In order, with the fewest lines. Time and memory as the product of both numbers of lines.
std::vector<ChangedLines> changed_lines(const SourceText& program, const std::string& edited);

/// Those that go and those that come, each behind its sign.
std::string changes_text(const std::vector<ChangedLines>& changes, Color color);

}  // namespace shardlab
