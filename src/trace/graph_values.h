// graph_values.h - the values of a graph while it runs again on one rank. Only for src/trace.
#pragma once

#include <cstddef>
#include <vector>

#include "trace/graph.h"

namespace shardlab {

/// Refers to the graph, which must outlive it. A value is freed after its last use, unless it is a
/// result of the program or left behind by it. Used by its rank alone.
class GraphValues {
 public:
  explicit GraphValues(const ProgramGraph& graph);

  /// Not defined where no node has given it yet, or the last one that takes it is over.
  ///   fails  Value: the graph has no such value
  DTensor& operator[](ValueRef value) { return values_[index(value)]; }
  const DTensor& operator[](ValueRef value) const { return values_[index(value)]; }
  /// For a node that takes it.
  ///   fails  Value: no node before has given it
  const DTensor& given(ValueRef value) const;
  /// All values, by number.
  const std::vector<DTensor>& all() const { return values_; }

  /// Frees the values that no node after this one takes.
  void let_go(std::size_t node);

 private:
  std::size_t index(ValueRef value) const;

  const ProgramGraph& graph_;
  std::vector<DTensor> values_;
  std::vector<std::size_t> last_use_;  ///< the node, or how many there are
};

}  // namespace shardlab
