// source_line.h - the place of a call in a C++ program: errors, reports of waiting ranks and
// gradients name it, as they name the line of a scenario.
#pragma once

#include <concepts>

namespace shardlab {

/// A function takes it last, `SourceLine place = {}`, or within an Operand (mesh/operand.h): made
/// by default it is the place where the function is called. The name of the file is a literal.
struct SourceLine {
  /// A parameter that no number in braces fits, so that lists of sizes are not taken for a place.
  struct Here {};

  const char* file;
  int line;

  constexpr SourceLine(Here = {}, const char* of_file = __builtin_FILE(),
                       int of_line = __builtin_LINE())
      : file(of_file), line(of_line) {}
  template <std::same_as<const char*> File>
  constexpr SourceLine(File of_file, int of_line) : file(of_file), line(of_line) {}
};

}  // namespace shardlab
