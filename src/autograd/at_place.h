// at_place.h - calls of a program in C++ report their place in it. For functions that programs
// call.
#pragma once

#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/rank_context.h"
#include "base/source_line.h"
#include "mesh/dtensor.h"

namespace shardlab {

/// While the outermost one lives, the running rank is at its place. Inside of another one, and
/// where a program text gives the place of the rank, it does nothing.
class PlaceScope {
 public:
  ///   fails  Runtime: outside of a rank
  explicit PlaceScope(const SourceLine& place)
      : rank_(current_rank()), before_(rank_.position), outermost_(before_.file == nullptr) {
    if (outermost_) rank_.position = {place.file, place.line, 0};
  }
  ~PlaceScope() {
    if (outermost_) rank_.position = before_;
  }
  PlaceScope& operator=(PlaceScope&&) = delete;

  /// Part "at" of an error that has none, where this is the outermost one.
  void add_to(Error& error) const;

 private:
  RankContext& rank_;
  const SourcePosition before_;
  const bool outermost_;
};

/// The result of `function`, called there.
template <typename Function>
decltype(auto) at_place(const SourceLine& place, Function&& function) {
  const PlaceScope scope(place);
  try {
    return std::forward<Function>(function)();
  } catch (Error& error) {
    scope.add_to(error);
    throw;
  }
}

/// Refuses a tensor that another rank of this run has made: `name` is called with it.
///   fails  Value
void check_own(std::string_view name, const DTensor& x);

/// The wording for a program in C++, or in the language of scenarios.
inline const char* in_language(const char* cpp, const char* scenario) {
  return current_rank().position.in_cpp() ? cpp : scenario;
}

}  // namespace shardlab
