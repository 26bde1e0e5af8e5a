// value_scope.h - another value for as long as a scope lives.
#pragma once

#include <utility>

namespace shardlab {

/// Puts back the value from before at its end. They nest.
template <typename T>
class ValueScope {
 public:
  ValueScope(T& place, T value) : place_(place), before_(std::exchange(place, std::move(value))) {}
  ~ValueScope() { place_ = std::move(before_); }
  ValueScope& operator=(ValueScope&&) = delete;

 private:
  T& place_;
  T before_;
};

}  // namespace shardlab
