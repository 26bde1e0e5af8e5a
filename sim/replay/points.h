// points.h - values that every recording of one program has, on whatever ranks it ran: inputs,
// results of modules and calls, gradients, parameters after the step. They are found by name.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/replay/event_values.h"
#include "sim/replay/fingerprint.h"
#include "sim/replay/stage_names.h"

namespace shardlab {

/// A rank's part of a value, or the whole.
struct PointPart {
  Dims shape;
  DType dtype = DType::kF32;
  std::vector<double> elements;  ///< row-major; empty: only the print is known
  Fingerprint print = {};
};

enum class PointKind : std::uint8_t {
  kInput,
  kResult,    ///< of a module or a call
  kFlow,      ///< a gradient on its way
  kGradient,  ///< of a parameter, as backward leaves it
  kEnd,       ///< a parameter, or its gradient, after the step
};

struct ComparedPoint {
  std::string key;  ///< the same in every recording
  PointKind kind = PointKind::kResult;
  std::string name;        ///< "layers.0.attention.wo", "norm.weight.grad"
  std::string op;          ///< "aten.linear.default"; empty: a module's result, or no op's
  std::string place;       ///< "layers.0.attention.wo  model.py:22"
  std::string held_as;     ///< placements of a DTensor; empty: a plain tensor
  std::size_t line = 0;    ///< of the file, from 1
  std::size_t event = 0;   ///< its index; of a value that a job has written its place among them
  std::int32_t value = 0;  ///< its number in the recording
  std::vector<std::int32_t> operands;  ///< numbers
  bool by_number = false;              ///< the call takes one tensor, and numbers all ranks have
  std::vector<std::size_t> ranks;      ///< of `parts`
  std::vector<PointPart> parts;        ///< as parts_of_value()
  /// Events and numbers of ranks before the last, where each rank has events of its own.
  std::vector<std::pair<std::size_t, std::int32_t>> of_others = {};
};

/// A point's key has the line of a call.
bool is_key_by_line(const std::string& key);

/// A gradient on its way, or as backward leaves it.
bool is_gradient(const ComparedPoint& point);
/// A parameter after the step, and not its gradient.
bool is_stepped(const ComparedPoint& point);
/// A loss that backward begins with, apart from the call that made it.
bool is_loss(const ComparedPoint& point);
/// The same with one rank's part alone, by its place among the ranks.
ComparedPoint of_rank(const ComparedPoint& point, std::size_t i);
/// Takes ranks out of a point, by their places.
void leave_out(ComparedPoint& point, const std::function<bool(std::size_t i)>& is_out);

/// The parts of A's values, by the keys of their points.
using PointsOfA = std::map<std::string, std::vector<PointPart>>;

/// Finds the points of a recording, asked for each event in the order of the file.
class PointNames {
 public:
  /// `by_rank`: events of one rank have keys of their own. `by_line`: a call outside of modules has
  /// its line in its key, see RecordingBlame::other_calls. The program outlives it.
  PointNames(const RecordedProgram& program, bool by_rank, StageNames stages = {},
             bool by_line = false);

  /// The points that the event at `index` makes, without their values.
  std::vector<ComparedPoint> named(std::size_t index);
  /// The same, with their values.
  std::vector<ComparedPoint> at(std::size_t index, const EventValues& values);

 private:
  std::string name_in(const RecordedEvent& event, const std::string& module) const;
  std::string name_on_rank(const RecordedEvent& event, const std::string& name) const;
  std::string own_name(const std::string& name) const;
  template <typename Visit>
  void for_each_name(const RecordedEvent& event, const Visit& visit);
  std::int32_t rank_of(const RecordedEvent& event) const {
    return event.rank < 0 ? only_ : event.rank;
  }
  std::string counted(const RecordedEvent& event, const std::string& name);
  const RecordedEvent* backward_of(std::int32_t rank) const;
  std::size_t looks_before(const RecordedEvent& event, const std::string& name);
  ComparedPoint point_of(const RecordedEvent& event, std::string key, PointKind kind) const;
  std::string name_of(const RecordedEvent& event) const;
  std::string op_name(const RecordedEvent& event) const;
  bool is_undefined(const RecordedEvent& event, std::size_t rank) const;
  std::vector<std::int32_t> losses_of(const RecordedEvent& event);
  void add_clipped(const RecordedEvent& event, std::vector<ComparedPoint>& points);
  void add_named(const RecordedEvent& event, std::vector<ComparedPoint>& points);

  const RecordedProgram& program_;
  bool by_rank_;
  std::int32_t only_ = -1;  // of ranks that have an event: the first that has this name for it
  LeafNames leaves_;
  StageNames stages_;
  std::set<std::string> roots_;  // names of modules that hold all others
  std::map<std::pair<std::int32_t, std::size_t>, std::string> calls_;  // rank and number -> key
  // Rank and number of a function -> key, and the name that its calls have in theirs.
  std::map<std::pair<std::int32_t, std::size_t>, std::pair<std::string, std::string>> functions_;
  std::map<std::string, std::size_t> counts_;
  std::map<std::int32_t, const RecordedEvent*> backwards_;  // the last of a rank
  // Looks at a gradient, by rank, backward and name.
  std::map<std::tuple<std::int32_t, const RecordedEvent*, std::string>, std::size_t> looks_;
  std::map<std::int32_t, std::string> gradients_;  // as backward has left them, their names
};

/// Told of each event, and of the points that it makes.
using OnPoints = std::function<void(std::size_t event, const std::vector<ComparedPoint>& points)>;
/// All of a program, which is played. `largest_gradient` is raised to the largest element of one.
/// The elements of later points are not kept once there are too many.
PointsOfA points_of(const RecordedProgram& program, PointNames names, double& largest_gradient,
                    const OnPoints& on_points = {});

/// The parts of a value on the ranks that the event ran on; of a DTensor the whole, or, if it lives
/// on parts of the mesh, the whole that each rank's part of the mesh has. Empty where it has none.
std::vector<PointPart> parts_of_value(const EventValues& values, std::int32_t number,
                                      const std::vector<std::size_t>& ranks);

}  // namespace shardlab
