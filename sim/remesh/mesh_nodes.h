// mesh_nodes.h - the graph of a re-mesh while it is written: nodes, names of values, and operands
// as a plan moves them. Private to the writer of graphs.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "sim/graph/graph_scenario.h"
#include "sim/remesh/call_program.h"
#include "sim/remesh/mesh_plan.h"

namespace shardlab {

struct OpRow;

inline GraphArgument value_argument(std::int32_t value) { return {ValueRef{value}}; }
inline bool is_complex_number(const GraphArgument& argument) {
  const auto* number = std::get_if<Scalar>(&argument.value);
  return number != nullptr && number->category() == Category::kComplex;
}
inline GraphArgument int_argument(std::int64_t value) { return {Scalar(value)}; }
GraphArgument list_argument(const std::vector<std::int32_t>& values);

/// Used by one thread; what it is made from outlives it.
class MeshNodes {
 public:
  /// `dtype`: of all floats; empty: as recorded.
  MeshNodes(const CallProgram& program, const PlanMesh& mesh, const MeshPlan& plan,
            std::optional<DType> dtype);

  /// A node has a line of its own, or is written inside of the statement that takes its result.
  enum class Written : bool { kInside, kStatement };

  GraphNode& node(NodeKind kind, Written written);
  /// One that makes `result` of a value.
  GraphNode& made_of(NodeKind kind, std::int32_t value, std::int32_t result, Written written);
  /// The number of a new value.
  std::int32_t fresh(const std::string& name = "");
  /// An op whose result is written inside of the statement that takes it.
  std::int32_t inside(const std::string& op, std::vector<GraphArgument> args);
  /// The op with its defaults; arguments that are given come first.
  void call(const std::string& op, std::vector<GraphArgument> args, std::int32_t result,
            Written written = Written::kStatement);
  std::int32_t moved(std::int32_t value, const Moved& towards, std::int32_t result,
                     Written written);
  std::int32_t detach(std::int32_t value);
  void distribute(std::int32_t value, const ValueType& like, std::int32_t result, Written written);
  /// A value of the same name, from which the statement's own is made.
  std::int32_t before_end(std::int32_t value);

  /// The value as the statement takes it: moved, without its gradient, cast, or as it is.
  std::int32_t operand(std::int32_t value, std::size_t index = ~std::size_t{0},
                       bool one_use = true);
  /// The arguments of the statement's call, with such operands.
  std::vector<GraphArgument> arguments(const Statement& one, const OpRow& row);
  /// A value that the backward of a function makes has another number there.
  std::int32_t own(std::int32_t value) const;

  DType dtype_of_all(DType own) const { return dtype_ && is_floating(own) ? *dtype_ : own; }
  std::int64_t ranks() const { return graph.world; }
  ValueType replica_type(const Dims& shape, DType dtype) const;
  ValueType input_type(const CallInput& input) const;
  /// Operands of a write to an input whose dims are shorter than the number of their pieces have
  /// its placements, since no rule would move them there.
  void place_as_written(const Statement& one, std::vector<GraphArgument>& args);
  std::int32_t as_placed(std::int32_t value, const CallInput& input);
  /// "layers.0  train.py:12"
  std::string comment_of(const RecordedEvent& event) const;

  const CallProgram& program;
  const MeshPlan& plan;
  ProgramGraph graph;
  GraphNames names;
  const Statement* now = nullptr;
  std::string comment;                           ///< of the statement
  std::size_t at = 0;                            ///< the statement's index
  std::map<std::int32_t, std::int32_t> renamed;  ///< inside of a function

  /// A moved copy is the old value, once something is written.
  void forget_moved() { moved_.clear(); }

 private:
  bool is_cut_thin(const CallInput& input) const;
  std::int32_t placed_operand(std::int32_t value, std::size_t index, bool one_use);
  GraphArgument complex_tensor(const Scalar& number);
  void substitute(GraphArgument& argument, std::size_t& index);

  const PlanMesh& mesh_;
  const std::optional<DType> dtype_;
  std::set<std::string> taken_;
  std::map<std::tuple<std::int32_t, bool, std::string>, std::int32_t> moved_;
};

}  // namespace shardlab
