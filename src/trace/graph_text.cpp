// Values are written by number. A value written in place has a mark for each write behind its
// number: %3' is value 3 after one write.
#include "trace/graph_text.h"

#include <algorithm>
#include <unordered_map>

#include "base/text.h"
#include "mesh/type_string.h"
#include "trace/graph_meshes.h"

namespace shardlab {

namespace {

// Prints in the order of the nodes, and keeps count of writes.
class Printer {
 public:
  explicit Printer(const ProgramGraph& graph)
      : graph_(graph), meshes_(graph.meshes, graph.ranks.empty() ? 0 : graph.ranks[0], arena_) {}

  std::string node(const GraphNode& node) {
    if (node.kind == NodeKind::kSizeGuard) {
      if (node.args.size() != 2) return "guard ?";
      return fmt::format("guard {}{} {} {}{}", node.required ? "" : "not ",
                         argument(node.args.at(0)), node.name, argument(node.args.at(1)),
                         node.line > 0 ? fmt::format("    line {}", node.line) : "");
    }
    const std::string call =
        fmt::format("{}({})", name_of(node), text_of_list(parts_of(node), ", "));
    std::vector<std::string> results;
    for (const GraphResult& result : node.results) {
      if (result.value.id < 0) continue;
      if (writes(node, result.value)) ++written_[result.value.id];
      results.push_back(fmt::format("{}: {}", value(result.value), type(result.type)));
    }
    std::string text;
    if (!results.empty()) text = fmt::format("{} = ", text_of_list(results, ", "));
    text += call;
    if (node.line > 0) text += fmt::format("    line {}", node.line);
    if (node.error) text += fmt::format("    fails: {}", node.error->message);
    return text;
  }

  std::string type(const ValueType& type) {
    if (type.mesh < 0) return type_string(TensorMeta{type.shape, type.stride, type.dtype});
    return type_string(*meshes_.spec_of(type));
  }

 private:
  std::string value(ValueRef value) const {
    const auto times = written_.find(value.id);
    return fmt::format("%{}{}", value.id,
                       std::string(times == written_.end() ? 0 : times->second, '\''));
  }

  static std::string name_of(const GraphNode& node) {
    const bool named = node.kind == NodeKind::kOp || node.kind == NodeKind::kFactory ||
                       node.kind == NodeKind::kCollective;
    return named ? node.name : std::string(kind_name(node.kind));
  }

  std::string argument(const GraphArgument& argument) const {
    struct Visitor {
      const Printer& printer;
      std::string operator()(std::monostate) const { return "None"; }
      std::string operator()(const Scalar& value) const { return value.text(); }
      std::string operator()(ValueRef value) const { return printer.value(value); }
      std::string operator()(const Dims& value) const {
        return fmt::format("[{}]", text_of_list(value, ", "));
      }
      std::string operator()(DType value) const { return std::string(to_string(value)); }
      std::string operator()(const std::string& value) const { return "\"" + value + "\""; }
      std::string operator()(GeneratorRef value) const {
        return fmt::format("generator {}", value.index);
      }
      std::string operator()(NumberRef value) const { return number_text(printer.graph_, {value}); }
      std::string operator()(const std::vector<GraphArgument>& items) const {
        std::vector<std::string> texts;
        for (const GraphArgument& item : items) texts.push_back(printer.argument(item));
        return fmt::format("[{}]", text_of_list(texts, ", "));
      }
    };
    return std::visit(Visitor{*this}, argument.value);
  }

  std::vector<std::string> parts_of(const GraphNode& node) {
    std::vector<std::string> parts;
    if (node.kind == NodeKind::kInput) parts.push_back(node.name);
    for (const GraphArgument& one : node.args) parts.push_back(argument(one));
    if (fills(node) && parts.size() == 2) parts[1] = "into=" + parts[1];
    if (node.kind == NodeKind::kInput) parts.push_back(recipe_text(node.recipe));
    if (node.target) parts.push_back("to=" + target(*node.target));
    if (node.async) parts.emplace_back("async_op=True");
    if (node.planner) parts.push_back("planner=" + *node.planner);
    if (node.forward_dtype)
      parts.push_back(fmt::format("forward_dtype={}", to_string(*node.forward_dtype)));
    if (node.backward_dtype)
      parts.push_back(fmt::format("backward_dtype={}", to_string(*node.backward_dtype)));
    if (node.source) parts.push_back(fmt::format("source={}", *node.source));
    if (node.tag != 0) parts.push_back(fmt::format("tag={}", node.tag));
    if (node.kind == NodeKind::kCollective) add_collective(node, parts);
    if (!node.required) parts.emplace_back("False");
    if (node.in_place && !fills(node)) parts.emplace_back("in_place=True");
    if (node.work >= 0) parts.push_back(fmt::format("work={}", node.work));
    if (node.graph == Graph::kRetain) parts.emplace_back("retain_graph=True");
    if (node.graph == Graph::kCreate) parts.emplace_back("create_graph=True");
    if (node.requires_grad) parts.emplace_back("requires_grad=True");
    if (node.generator) {
      parts.push_back(fmt::format("generator={}", node.generator->index));
    }
    if (node.hook >= 0) parts.push_back(fmt::format("hook={}", node.hook));
    if (node.zeros) parts.emplace_back("zeros=True");
    if (node.once) parts.emplace_back("once_differentiable=True");
    if (node.kind == NodeKind::kSeed) parts.push_back(fmt::format("{}", node.seed));
    if (!node.taped) parts.emplace_back("no_grad=True");
    if (node.replicates) parts.emplace_back("implicit_replication=True");
    if (!node.data.empty()) parts.push_back(data(node.data));
    return parts;
  }

  // For a value that does not exist yet, placements show the target.
  std::string target(const ValueType& type) {
    return type.shape.empty() && !type.placements.empty() ? to_string(type.placements)
                                                          : this->type(type);
  }

  void add_collective(const GraphNode& node, std::vector<std::string>& parts) const {
    parts.push_back("group=" + group(node.group));
    if (node.op != ReduceOp::kSum) parts.push_back(fmt::format("op={}", to_string(node.op)));
    if (!fills(node)) parts.push_back(fmt::format("dim={}", node.dim));
  }

  static bool fills(const GraphNode& node) {
    return node.kind == NodeKind::kCollective && node.in_place;
  }

  std::string group(const GraphGroup& group) const {
    if (group.mesh < 0) return "world";
    const GraphMesh& mesh = graph_.meshes[static_cast<std::size_t>(group.mesh)];
    std::vector<std::string> names;
    for (const std::int64_t dim : group.dims) {
      names.push_back(dim_name(mesh, static_cast<std::size_t>(dim)));
    }
    return text_of_list(names, "_");
  }

  static std::string data(const std::vector<std::vector<Scalar>>& data) {
    constexpr std::size_t kShown = 4;
    if (data.size() > 1) return fmt::format("{} elements, by rank", data[0].size());
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < std::min(kShown, data[0].size()); ++i) {
      texts.push_back(data[0][i].text());
    }
    if (data[0].size() > kShown) texts.push_back(fmt::format("... {} elements", data[0].size()));
    return fmt::format("[{}]", text_of_list(texts, ", "));
  }

  const ProgramGraph& graph_;
  Arena arena_;
  GraphMeshes meshes_;
  std::unordered_map<std::int32_t, std::size_t> written_;
};

std::string move_text(const GraphMove& move) {
  return fmt::format("moves argument {} of {} from {} to {}: {}", move.argument, move.op, move.from,
                     move.to, move.plan);
}

std::string collective_text(const GraphCollective& collective, GraphLevel level) {
  std::string text = collective.waits ? "waits for " : "";
  text += fmt::format("{} over {}", to_string(collective.kind), collective.group);
  if (collective.op) text += fmt::format(" {}", to_string(*collective.op));
  text += fmt::format(" {}", to_string(collective.dtype));
  if (level == GraphLevel::kRank) {
    text += fmt::format("[{}] ranks {}", text_of_list(collective.shape, ", "),
                        shortened_ranges(collective.ranks, 60));
  }
  if (collective.pass == Pass::kBackward) text += " (backward)";
  return text;
}

std::string mesh_text(const GraphMesh& mesh) {
  std::vector<std::string> dims;
  for (std::size_t dim = 0; dim < mesh.shape.size(); ++dim) {
    dims.push_back(fmt::format("{}:{}", dim_name(mesh, dim), mesh.shape[dim]));
  }
  std::string text = fmt::format("{{{}}}", text_of_list(dims, ", "));
  if (mesh.base >= 0) {
    text += fmt::format(" = {} {} of mesh {}", mesh.flattened ? "flattened" : "part",
                        text_of_list(mesh.part, ", "), mesh.base);
  }
  return text;
}

std::string size_text(const ProgramGraph& graph, const GraphNode& size) {
  const auto* of = std::get_if<ValueRef>(&size.args[0].value);
  const auto* dim = std::get_if<Scalar>(&size.args[1].value);
  if (of == nullptr || dim == nullptr) return "?";
  const auto input = std::ranges::find_if(graph.nodes, [&](const GraphNode& one) {
    return one.kind == NodeKind::kInput && !one.results.empty() && one.results[0].value == *of;
  });
  const bool named = input != graph.nodes.end();
  return fmt::format("{}.shape[{}]", named ? input->name : fmt::format("%{}", of->id), dim->text());
}

// Deep ones are named, not spelled out: their parts may occur in them many times.
std::string number_text(const ProgramGraph& graph, const GraphArgument& number, int depth) {
  constexpr int kDeepest = 5;
  if (const auto* scalar = std::get_if<Scalar>(&number.value)) return scalar->text();
  const auto* wanted = std::get_if<NumberRef>(&number.value);
  if (wanted == nullptr) return "?";
  const auto node = std::ranges::find_if(graph.nodes, [&](const GraphNode& one) {
    return wanted->index >= 0 && one.number == wanted->index;
  });
  if (node == graph.nodes.end() || node->args.size() != 2 || depth > kDeepest) {
    return fmt::format("n{}", wanted->index);
  }
  if (node->kind == NodeKind::kSize) return size_text(graph, *node);
  return fmt::format("({} {} {})", number_text(graph, node->args[0], depth + 1), node->name,
                     number_text(graph, node->args[1], depth + 1));
}

}  // namespace

std::string number_text(const ProgramGraph& graph, const GraphArgument& number) {
  return number_text(graph, number, 0);
}

std::string recipe_text(const InputRecipe& recipe) {
  std::vector<std::string> arguments;
  for (const Scalar& argument : recipe.arguments) arguments.push_back(argument.text());
  std::string text = recipe.init;
  if (!arguments.empty()) text += fmt::format("({})", text_of_list(arguments, ", "));
  if (recipe.scale != 1) text += fmt::format(" * {}", recipe.scale);
  return text;
}

std::string type_text(const ProgramGraph& graph, const ValueType& type) {
  return Printer(graph).type(type);
}

std::string node_text(const ProgramGraph& graph, const GraphNode& node) {
  return Printer(graph).node(node);
}

std::string graph_text(const ProgramGraph& graph, GraphLevel level) {
  Printer printer(graph);
  std::string text;
  for (const GraphNode& node : graph.nodes) {
    const bool reported_elsewhere = node.kind == NodeKind::kMesh || node.kind == NodeKind::kSize ||
                                    node.kind == NodeKind::kNumber;
    if (reported_elsewhere) continue;
    text += "  " + printer.node(node) + "\n";
    for (const GraphMove& move : node.moves) text += "        " + move_text(move) + "\n";
    for (const GraphCollective& collective : node.collectives) {
      text += "        " + collective_text(collective, level) + "\n";
    }
  }
  return text;
}

std::string setup_text(const ProgramGraph& graph) {
  std::string text;
  for (const GraphNode& node : graph.nodes) {
    if (node.kind != NodeKind::kMesh) continue;
    const GraphMesh& mesh = graph.meshes[static_cast<std::size_t>(node.mesh)];
    text += fmt::format("  mesh {}: {}", node.mesh, mesh_text(mesh));
    if (!node.mesh_dims.empty()) {
      text += fmt::format(", one group over dims {}", text_of_list(node.mesh_dims, ", "));
    }
    text += node.line > 0 ? fmt::format("    line {}\n", node.line) : "\n";
  }
  return text;
}

std::string graph_dot(const ProgramGraph& graph) {
  Printer printer(graph);
  std::string text = "digraph program {\n  node [shape=box, fontname=monospace];\n";
  std::unordered_map<std::int32_t, std::size_t> from;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    std::string label = printer.node(node);
    for (const GraphCollective& collective : node.collectives) {
      label += "\n" + collective_text(collective, GraphLevel::kProgram);
    }
    text += fmt::format("  n{} [label=\"", i);
    for (const char letter : label) {
      if (letter == '"' || letter == '\\') text += '\\';
      text += letter == '\n' ? std::string("\\n") : std::string(1, letter);
    }
    text += "\"];\n";
    for (const GraphArgument& argument : node.args) {
      for_each_value(argument, [&](const ValueRef& value) {
        const auto giver = from.find(value.id);
        if (giver != from.end()) text += fmt::format("  n{} -> n{};\n", giver->second, i);
      });
    }
    for (const GraphResult& result : node.results) {
      if (result.value.id >= 0) from[result.value.id] = i;
    }
  }
  return text + "}\n";
}

}  // namespace shardlab
