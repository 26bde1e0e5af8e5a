// emitter.h - making an object again (T-25, T-60), as loads, constants and calls: one end
// writes an expression from them and the other builds a function that makes the object.
//
//   TextEmitter text;            value.reconstruct(text);  text.take()   // "Partial(\"max\")"
//   FactoryEmitter make(arena);  value.reconstruct(make);  make.take()()   // a HostObject
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trace/host_objects.h"

namespace shardlab {

class Arena;
class TracedValue;

/// Each call leaves one object on a stack; call() and method() take their arguments from it, and
/// the callee below them.
class Emitter {
 public:
  virtual ~Emitter() = default;
  /// A global name: "DeviceMesh", "group.WORLD".
  virtual void load(std::string_view name) = 0;
  /// A class of placements, by module and name.
  virtual void load(const PlacementType& type) { load(type.name); }
  virtual void constant(const Argument& value) = 0;
  virtual void call(std::size_t arguments) = 0;
  virtual void method(std::string_view name, std::size_t arguments) = 0;
};

/// False: no expression gives an equal object; then the emitter was not called.
bool emit(const TracedValue& value, Emitter& emitter);

class TextEmitter final : public Emitter {
 public:
  using Emitter::load;
  void load(std::string_view name) override { stack_.emplace_back(name); }
  void constant(const Argument& value) override { stack_.push_back(value.text()); }
  void call(std::size_t arguments) override;
  void method(std::string_view name, std::size_t arguments) override;
  /// The expression.
  std::string take();

 private:
  std::string taken(std::size_t arguments);
  std::vector<std::string> stack_;
};

/// Makes objects on the running rank: meshes in `arena`, constructed where they are not yet.
class FactoryEmitter final : public Emitter {
 public:
  using Factory = std::function<HostObject()>;
  /// `types`: classes of the user's that expressions may name.
  explicit FactoryEmitter(Arena& arena, std::span<const PlacementType* const> types = {})
      : arena_(&arena), types_(types.begin(), types.end()) {}

  ///   fails  Value: an unknown name
  void load(std::string_view name) override;
  void load(const PlacementType& type) override;
  void constant(const Argument& value) override;
  ///   fail  Value: an object that is not a function or method
  void call(std::size_t arguments) override;
  void method(std::string_view name, std::size_t arguments) override;
  Factory take();

 private:
  struct Item {
    Factory make;
    const PlacementType* type = nullptr;  ///< a class to be called
    bool makes_mesh = false;              ///< the name DeviceMesh
  };
  std::vector<Factory> taken(std::size_t arguments);
  Item popped();

  Arena* arena_;
  std::vector<const PlacementType*> types_;
  std::vector<Item> stack_;
};

}  // namespace shardlab
