// function_class.h - class F(torch.autograd.Function) of a program: static methods under a name.
// Used by one rank.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "sim/language/values/object.h"

namespace shardlab {

class FunctionClass final : public Callable {
 public:
  struct Method {
    Value function;
    bool once_differentiable = false;
  };
  using Methods = std::map<std::string, Method, std::less<>>;

  FunctionClass(std::string name, Methods methods)
      : name_(std::move(name)), methods_(std::move(methods)) {}

  std::string_view kind() const override { return "class"; }
  BuiltinTable members() const override { return function_class_methods(); }
  std::string text() const override { return "<class '" + name_ + "'>"; }
  const Value* find(std::string_view name) const override {
    const auto found = methods_.find(name);
    return found == methods_.end() ? nullptr : &found->second.function;
  }
  /// It has no instances.
  Value call(Interpreter& interpreter, CallValues call) override;
  const std::string& name() const { return name_; }
  const Methods& methods() const { return methods_; }

 private:
  std::string name_;
  Methods methods_;
};

}  // namespace shardlab
