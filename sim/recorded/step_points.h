// step_points.h - values that every recording of one program has, on whatever ranks it ran: inputs,
// results of modules and calls, gradients, parameters after the step. They are found by name.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/capture/recorded_event.h"
#include "sim/capture/step_recording.h"
#include "sim/recorded/program_player.h"
#include "sim/recorded/step_print.h"

namespace shardlab {

/// A rank's part of a value, or the whole.
struct PointPart {
  Dims shape;
  DType dtype = DType::kF32;
  std::vector<double> elements;  ///< row-major; empty: only the print is known
  StepPrint print{std::vector<double>()};
};

enum class PointKind : std::uint8_t {
  kInput,
  kResult,    ///< of a module or a call
  kFlow,      ///< a gradient on its way
  kGradient,  ///< of a parameter, as backward leaves it
  kEnd,       ///< a parameter, or its gradient, after the step
};

struct StepPoint {
  std::string key;  ///< the same in every recording
  PointKind kind = PointKind::kResult;
  std::string name;       ///< "layers.0.attention.wo", "norm.weight.grad"
  std::string op;         ///< "aten.linear.default"; empty: a module's result, or no op's
  std::string place;      ///< "layers.0.attention.wo  model.py:22"
  std::string held_as;    ///< placements of a DTensor; empty: a plain tensor
  std::size_t event = 0;  ///< line of the file, from 1
  std::size_t value = 0;  ///< its number in the recording
  std::vector<std::size_t> operands;  ///< numbers
  std::vector<std::size_t> ranks;     ///< of `parts`
  std::vector<PointPart> parts;       ///< of each rank; one of the whole for a DTensor
};

/// Finds the points of a recording, asked for each event in the order of the file.
class StepNames {
 public:
  /// `by_rank`: events of one rank have keys of their own.
  StepNames(const StepRecording& recording, bool by_rank);

  /// The points that the event at `index` makes, with their values as `player` has them.
  std::vector<StepPoint> at(std::size_t index, const ProgramPlayer& player);

 private:
  std::string name_in(std::string module) const;
  std::string counted(const Json& event, const std::string& name);
  StepPoint point_of(const Json& event, std::string key, PointKind kind, const Json& value) const;

  const StepRecording& recording_;
  bool by_rank_;
  std::map<std::string, bool> roots_;  // names of modules that hold all others
  std::map<std::pair<std::int64_t, std::size_t>, std::string> calls_;  // rank and number -> key
  std::map<std::string, std::size_t> counts_;
};

/// Calls visit(number) for every value that a call, a move or a collective takes.
template <typename Visit>
void for_each_taken(const Json& event, const Visit& visit) {
  const bool listed = event.contains("in") && !event.at("in").is_number();
  if (!listed) for_each_operand(event, visit);
}

/// The parts of a value on the ranks that the event ran on, or the whole of a DTensor; empty where
/// it has none.
std::vector<PointPart> parts_of_value(const ProgramPlayer& player, std::size_t number,
                                      const std::vector<std::size_t>& ranks);

}  // namespace shardlab
