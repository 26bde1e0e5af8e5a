// interpreter_frame.h - the locals of one call of a def. Private to the interpreter's files.
#pragma once

#include <algorithm>
#include <string>
#include <unordered_map>

#include "sim/language/interpreter.h"

namespace shardlab {

struct Interpreter::Frame {
  const ast::Function* function;
  std::unordered_map<std::string, Value> locals;

  /// Whether the name is local to the def: Python decides that from the text, not from what ran.
  bool binds(const std::string& name) const {
    return std::binary_search(function->locals.begin(), function->locals.end(), name);
  }
};

}  // namespace shardlab
