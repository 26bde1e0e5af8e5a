// traced_capture.h - a C++ function that queries meshes, groups and placements through traced
// values, as a graph, which depends on their answers, too.
//
//   const TracedFunction f = capture_traced(
//       [](Tracing& tracing, const std::vector<DTensor>& in) {
//         const TracedValue mesh = tracing.wrap(in[0]).get_attr("device_mesh");
//         ...
//       }, {x});
//
// On every rank; used by that rank alone.
#pragma once

#include <functional>
#include <vector>

#include "trace/capture.h"
#include "trace/traced_value.h"

namespace shardlab {

using TracedProgram =
    std::function<std::vector<DTensor>(Tracing& tracing, const std::vector<DTensor>& inputs)>;

class TracedFunction {
 public:
  const CapturedProgram& program() const { return program_; }
  /// Guards of traced values, in addition to those of program(); in order, each once.
  const std::vector<Guard>& guards() const { return guards_; }
  /// All questions, in order.
  const std::vector<Fold>& folds() const { return folds_; }
  /// The function's results on other inputs, computed by its graph.
  ///   fails  Value: a guard does not hold (T-4), or this is another rank and an answer depends on
  ///          the rank (T-57). Else as CapturedProgram::replay
  std::vector<DTensor> replay(const std::vector<DTensor>& inputs) const;

 private:
  friend TracedFunction capture_traced(const TracedProgram&, const std::vector<DTensor>&,
                                       const TraceOptions&);
  CapturedProgram program_;
  std::vector<Guard> guards_;
  std::vector<Fold> folds_;
  std::int64_t rank_ = 0;
};

/// capture() of a function that queries traced values. Inputs have the sources arg0, arg1, ...;
/// their meshes arg0.mesh, their placements arg0.placements[0], the world global.group.WORLD.
///   fails  as capture
TracedFunction capture_traced(const TracedProgram& program, const std::vector<DTensor>& inputs,
                              const TraceOptions& options = {});

}  // namespace shardlab
