// graph_writer.h - the parts of a graph's text around its statements: the names of values,
// constants, the contents of a block, refusals.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/spec.h"
#include "trace/graph_meshes.h"

namespace shardlab {

struct OpRow;
class OpRegistry;

/// Lines of code, each behind `indent`; the last one ends, too.
std::string indented_code(std::string_view code, std::string_view indent);
/// A number of the language: 1.0 stays a float.
std::string literal(double value);

class GraphWriter {
 public:
  virtual ~GraphWriter() = default;
  GraphWriter& operator=(GraphWriter&&) = delete;

 protected:
  /// The state around a statement.
  struct Around {
    bool no_grad = false;     ///< nothing is recorded
    bool records = false;     ///< inside of a hook, where else nothing is recorded
    bool replicates = false;  ///< a plain tensor next to a DTensor is a replica
    bool operator==(const Around&) const = default;
  };

  Around around_of(const GraphNode& node) const {
    return {.no_grad = !node.taped && !in_body_,
            .records = node.taped && in_body_,
            .replicates = node.replicates};
  }

  /// Both outlive the writer.
  GraphWriter(const ProgramGraph& graph, const OpRegistry& registry);

  /// The statements of all nodes but inputs.
  std::string statements() { return statements(0, graph_.nodes.size()); }
  /// Writes the statements of a part of the nodes.
  std::string statements(std::size_t begin, std::size_t end);
  /// The statements of a part of the nodes, as the body of a function that runs while nothing is
  /// recorded; they are not written at their own place.
  std::string body(std::size_t begin, std::size_t end);
  /// Fails with Unsupported, naming the node that is being written.
  [[noreturn]] void refuse(const std::string& what) const;

  // Values. Inputs have their own names, others their number.
  std::string name(ValueRef value) const;
  /// The letter, followed by as many "_" as keep it with a number different from inputs.
  std::string prefix(std::string_view letter) const;
  std::string generator(GeneratorRef generator) const;
  std::string argument(const GraphArgument& argument);
  std::vector<std::string> arguments(const std::vector<GraphArgument>& arguments);
  /// The type of a result of an earlier node.
  const ValueType& type_of(const GraphArgument& argument) const;
  /// A list among the arguments of a node.
  static const std::vector<GraphArgument>& list_of(const GraphNode& node, std::size_t position) {
    return std::get<std::vector<GraphArgument>>(node.args.at(position).value);
  }
  const OpRow& row_of(const GraphNode& node) const;
  const GraphMesh& mesh_of(std::int32_t number) const;
  /// True when equal pieces of this kind give a value of from_local's shape.
  bool reported_by_pieces(const GraphNode& node);
  /// "[8@dp, 16]{sum:tp}"
  std::string layout(const ValueType& type) const;

  /// A line among the statements, in the block that the node needs.
  void statement(const GraphNode& node, const std::string& text);
  /// A line outside of blocks.
  void statement(const std::string& text);
  /// Writes the statement of a node.
  virtual void write(const GraphNode& node) = 0;
  /// Behind a line: its place elsewhere.
  virtual std::string comment(const GraphNode& node) const = 0;
  /// Fails with Unsupported for a complex number.
  std::string scalar(const Scalar& value) const;
  static std::string list(const std::vector<std::string>& items);

  const ProgramGraph& graph() const { return graph_; }
  std::size_t at() const { return at_; }
  bool in_body() const { return in_body_; }
  /// Renames a value whose name the language can't take.
  void rename(std::int32_t value, std::string name) { names_[value] = std::move(name); }

 private:
  void write_all(std::size_t begin, std::size_t end);
  /// The line before the statements of a block.
  static std::string opening(const Around& around);
  std::size_t behind_hook(std::size_t call) const;
  void enter(const Around& around);

  const ProgramGraph& graph_;
  const OpRegistry& registry_;
  Arena arena_;
  GraphMeshes meshes_;
  std::size_t at_ = 0;
  std::map<std::int32_t, std::string> names_;  ///< of inputs
  std::string prefix_;
  std::string code_, block_;  ///< the text so far, and the block that is open
  Around around_;
  bool in_body_ = false;
};

}  // namespace shardlab
