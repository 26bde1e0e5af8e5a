// capture.h - a C++ function on tensors as a graph that can be called in its place.
//
//   const CapturedProgram step = capture(f, {x, w});   // runs f once
//   std::vector<DTensor> y = step.replay({x2, w2});    // runs its graph
//
// On every rank; used by that rank alone.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "mesh/dtensor.h"
#include "trace/graph.h"

namespace shardlab {

/// An input of a function, and its name in guards.
struct NamedTensor {
  std::string source;
  DTensor value;
  std::vector<std::int64_t> dynamic = {};  ///< dims that may have another size at the next call
};
/// The facts on which decisions of a function on these inputs depend, in order, each with its
/// present value: their types and meshes, which of them are one tensor, the running rank's
/// policies.
std::vector<Guard> facts_of_call(const std::vector<NamedTensor>& inputs);

/// Description of one input: its type, and of each dynamic dim its size, whether it is divided
/// evenly and whether every rank has a part.
struct InputType {
  const TensorMeta& meta;   ///< of the whole
  const DTensorSpec* spec;  ///< null: a plain tensor
  bool requires_grad = false;
};
void add_input_facts(std::vector<Guard>& facts, const std::string& source, const InputType& type,
                     const std::vector<std::int64_t>& dynamic);

/// The facts that stay guards of a graph: where sizes may differ (recorder.sized_at() has no line),
/// without those that give the sizes of dynamic dims.
std::vector<Guard> guards_of(std::vector<Guard> facts, const std::optional<std::int32_t>& sized_at);

/// A dim of an input, by their numbers.
struct DynamicDim {
  std::size_t input = 0;
  std::int64_t dim = 0;
};

using TensorProgram = std::function<std::vector<DTensor>(const std::vector<DTensor>&)>;

class CapturedProgram {
 public:
  const ProgramGraph& graph() const { return graph_; }
  const std::vector<Guard>& guards() const { return graph_.guards; }
  /// The results of the program when it was captured.
  const std::vector<DTensor>& results() const { return results_; }
  /// The program's results on other inputs, computed by its graph (T-58).
  ///   fails  Value: a guard does not hold (T-4), else as the program's calls do
  std::vector<DTensor> replay(const std::vector<DTensor>& inputs) const;

 private:
  friend CapturedProgram capture(const TensorProgram&, const std::vector<DTensor>&,
                                 const std::vector<DynamicDim>&);
  std::vector<NamedTensor> named(const std::vector<DTensor>& inputs) const;
  std::vector<DynamicDim> dynamic_;
  ProgramGraph graph_;
  std::vector<DTensor> results_;
};

/// Runs `program` once and records its events (T-1). At least one input is distributed; the program
/// takes parts of its mesh.
///   fails  Value: no input has a mesh. Else as the program does
/// `dynamic`: dims of inputs that may have other sizes when the graph runs. Its guards then require
/// that they are cut alike: still divided evenly, or still not, with rows for every rank, or not. A
/// function that gives sizes to an op, which may be those of its inputs, holds for these sizes
/// alone, and the guard for that names the line.
CapturedProgram capture(const TensorProgram& program, const std::vector<DTensor>& inputs,
                        const std::vector<DynamicDim>& dynamic = {});

}  // namespace shardlab
