// object.h - values that are known by their members only, and those that a program enters with
// `with`. Shared by all names that they have, as in Python. Used by one rank.
#pragma once

#include <string>
#include <string_view>

#include "sim/language/values/builtin.h"

namespace shardlab {

class Object {
 public:
  virtual ~Object() = default;
  /// "debug mode": for messages.
  virtual std::string_view kind() const = 0;
  /// Its members for a program, and the text that print() shows.
  virtual BuiltinTable members() const { return {}; }
  virtual std::string text() const { return std::string(kind()); }
  /// An attribute that the program, or its text, has set; null: it has none of that name.
  virtual const Value* find(std::string_view /*name*/) const { return nullptr; }
  /// object.name = value; false if it takes no assignment.
  virtual bool set(Interpreter&, const std::string& /*name*/, const Value& /*value*/) {
    return false;
  }
};

/// Objects that can be called, in addition to functions.
class Callable : public Object {
 public:
  virtual Value call(Interpreter& interpreter, CallValues call) = 0;
};

/// A context of `with`; if one is entered twice the calls nest.
class ContextManager : public Object {
 public:
  /// Gives the value of `with context as value`; `self` is the context itself.
  virtual Value enter(Interpreter& interpreter, const Value& self) = 0;
  /// Also after the block failed. Does not fail.
  virtual void leave() = 0;
};

}  // namespace shardlab
