// program_lines.h - the lines of a fact's program, which is a part of a scenario's text.
#pragma once

#include <cstdint>

#include "sim/language/syntax/source.h"

namespace shardlab {

/// Numbers the program's lines from 1, as facts do. A value; `source` outlives it.
struct ProgramLines {
  const SourceText& source;
  std::int64_t first_line;  ///< of the program, in the source

  /// The line on which the span begins.
  std::int64_t of(SourceSpan span) const { return source.place(span.begin).line - first_line + 1; }
};

}  // namespace shardlab
