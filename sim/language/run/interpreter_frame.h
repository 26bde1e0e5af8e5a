// interpreter_frame.h - the locals of one call of a def. Private to the interpreter's files.
#pragma once

#include <string>
#include <unordered_map>

#include "sim/language/run/interpreter.h"
#include "sim/language/values/cells.h"

namespace shardlab {

struct Interpreter::Frame {
  const ast::Function* function;
  std::unordered_map<std::string, Value> locals;
  CellMap cells;  ///< instead of `locals`: shared with defs inside, or captured from those around
  const Frame* caller = nullptr;  ///< null: it is called at the top

  /// Null if the name has no value here.
  const Value* find(const std::string& name) const {
    if (const auto cell = cells.find(name); cell != cells.end()) {
      return cell->second->value ? &*cell->second->value : nullptr;
    }
    const auto local = locals.find(name);
    return local == locals.end() ? nullptr : &local->second;
  }
  /// Whether the name belongs to the def or one around it, with a value or not.
  bool knows(const std::string& name) const {
    return cells.contains(name) || function->binds(name);
  }
  void bind(const std::string& name, const Value& value) {
    if (const auto cell = cells.find(name); cell != cells.end()) {
      cell->second->value = value;
    } else {
      locals[name] = value;
    }
  }
};

}  // namespace shardlab
