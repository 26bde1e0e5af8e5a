// writers.h - the op that wrote last to the memory of a value, by the views that a recording has of
// it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "sim/recording/recorded_program.h"

namespace shardlab {

/// Used by one thread.
class Writers {
 public:
  /// An event of the program, in their order.
  void meet(const RecordedProgram& program, std::size_t event);
  /// Writes to this value count from now on.
  void forget(std::int32_t number) { last_.erase(root(number)); }
  /// The index of the event, of a line of the program; none: nothing wrote to it.
  std::optional<std::size_t> last(std::int32_t number) const;

 private:
  std::int32_t root(std::int32_t number) const;

  std::map<std::int32_t, std::int32_t> roots_;  // of views
  std::map<std::int32_t, std::size_t> last_;    // by root
};

}  // namespace shardlab
