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
  /// What a program can ask of it, and the text that print() shows.
  virtual BuiltinTable members() const { return {}; }
  virtual std::string text() const { return std::string(kind()); }
  /// An attribute that the program, or its text, has given it; null: it has none of the name.
  virtual const Value* find(std::string_view /*name*/) const { return nullptr; }
  /// object.name = value; false where nothing can be assigned to.
  virtual bool set(Interpreter&, const std::string& /*name*/, const Value& /*value*/) {
    return false;
  }
};

/// What can be called, beside functions.
class Callable : public Object {
 public:
  virtual Value call(Interpreter& interpreter, CallValues call) = 0;
};

/// What `with` enters and leaves; of one that is entered twice the calls nest.
class ContextManager : public Object {
 public:
  /// Gives the value of `with context as value`; `self` is the context itself.
  virtual Value enter(Interpreter& interpreter, const Value& self) = 0;
  /// Also where the block failed. Does not fail.
  virtual void leave() = 0;
};

}  // namespace shardlab
