// generator.h - a program's own source of random numbers: equal on all ranks that make it
// with the same seed and draw from it alike. Used by one rank.
#pragma once

#include "schema/argument.h"
#include "sim/language/values/object.h"

namespace shardlab {

class GeneratorObject final : public Object {
 public:
  /// The default seed of torch's generators.
  static constexpr std::uint64_t kDefaultSeed = 67280421310721;

  std::string_view kind() const override { return "generator"; }
  BuiltinTable members() const override { return generator_methods(); }
  const Generator& state() const { return state_; }

 private:
  Generator state_ = std::make_shared<RandomState>(RandomState{kDefaultSeed, 0});
};

/// Null if the value is something else.
const GeneratorObject* generator_of(const Value& value);

}  // namespace shardlab
