// place_text.h - a place in a program, as sentences name it.
#pragma once

#include <fmt/format.h>

#include <string>

#include "base/rank_context.h"

namespace shardlab {

/// "line 12", or of a program in C++ "step.cpp:12".
inline std::string place_text(const SourcePosition& position) {
  if (!position.in_cpp()) return fmt::format("line {}", position.line);
  return fmt::format("{}:{}", position.file, position.line);
}

}  // namespace shardlab
