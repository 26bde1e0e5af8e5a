// event_values.h - a recording that is played, with the values that its events name, for those who
// compare values of two programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "mesh/dtensor.h"
#include "sim/replay/played_graph.h"

namespace shardlab {

/// The values that one event names, as the ranks have them behind it.
class EventValues {
 public:
  explicit EventValues(std::size_t ranks) : ranks_(ranks) {}

  std::size_t ranks() const { return ranks_; }
  /// Undefined where the rank has none, or the event does not name it.
  const DTensor& on(std::int32_t number, std::size_t rank) const;
  /// Used by one rank at a time.
  void set(std::int32_t number, std::size_t rank, DTensor value);

 private:
  std::size_t ranks_;
  std::map<std::int32_t, std::vector<DTensor>> values_;
};

/// Called for each event, in the order of the file, by any thread.
using OnEvent = std::function<void(std::size_t event, const EventValues& values)>;

/// Plays the program with the edits, as far as it runs.
void play_events(const RecordedProgram& program, const std::vector<PlayedEdit>& edits,
                 const OnEvent& on_event);

/// Calls visit(number) for each value that the event takes, gives or looks at.
template <typename Visit>
void for_each_named(const RecordedEvent& event, std::size_t rank, const Visit& visit) {
  for_each_operand(event, rank, visit);
  for (const auto* numbers : {&event.takes, &event.gives}) {
    for (const std::int32_t number : *numbers) {
      if (number >= 0) visit(number);
    }
  }
  for_each_given(event, [&](const EventValue& one) { visit(one.id.id); });
}

}  // namespace shardlab
