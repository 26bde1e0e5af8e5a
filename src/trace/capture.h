// capture.h - a C++ function on tensors as a graph that can be called in its place.
//
//   const CapturedProgram step = capture(f, {x, w});   // runs f once
//   std::vector<DTensor> y = step.replay({x2, w2});    // runs its graph
//
// On every rank; used by that rank alone.
#pragma once

#include <functional>
#include <vector>

#include "mesh/dtensor.h"
#include "trace/graph.h"

namespace shardlab {

using TensorProgram = std::function<std::vector<DTensor>(const std::vector<DTensor>&)>;

class CapturedProgram {
 public:
  const ProgramGraph& graph() const { return graph_; }
  const std::vector<Guard>& guards() const { return graph_.guards; }
  /// What the program gave when it was captured.
  const std::vector<DTensor>& results() const { return results_; }
  /// The program's results on other inputs, computed by its graph (T-58).
  ///   fails  Value: a guard does not hold (T-4), else as the program's calls do
  std::vector<DTensor> replay(const std::vector<DTensor>& inputs) const;

 private:
  friend CapturedProgram capture(const TensorProgram&, const std::vector<DTensor>&);
  ProgramGraph graph_;
  std::vector<DTensor> results_;
};

/// Runs `program` once and writes down what it does (T-1). At least one input is distributed; the
/// program takes parts of its mesh.
///   fails  Value: no input has a mesh. Else as the program does
CapturedProgram capture(const TensorProgram& program, const std::vector<DTensor>& inputs);

}  // namespace shardlab
