// Values get the names of the inputs that they are, else their numbers. Two or three nodes that one
// statement makes together become that statement again.
#include "sim/capture/graph_scenario.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/fix.h"
#include "mesh/local_shape.h"
#include "mesh/spec.h"
#include "schema/op_row.h"
#include "sim/language/generator.h"
#include "sim/language/value.h"
#include "trace/graph_break.h"
#include "trace/graph_meshes.h"
#include "trace/graph_text.h"

namespace shardlab {

namespace {

// As the language writes it: 1.0 stays a float.
std::string literal(double value) {
  if (std::isnan(value)) return "float(\"nan\")";
  if (std::isinf(value)) return value > 0 ? "float(\"inf\")" : "float(\"-inf\")";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string toml_text(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += letter;
  }
  return out + '"';
}

class ScenarioWriter {
 public:
  ScenarioWriter(const ProgramGraph& graph, const OpRegistry& registry)
      : graph_(graph), registry_(registry), meshes_(graph.meshes, 0, arena_) {
    for (const GraphNode& node : graph.nodes) {
      if (node.kind != NodeKind::kInput) continue;
      names_[node.results.at(0).value.id] = node.name;
      while (taken_by_input(prefix_, node.name)) prefix_ += "_";
    }
  }

  std::string text() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      at_ = i;
      if (graph_.nodes[i].kind != NodeKind::kInput) write(graph_.nodes[i]);
    }
    return header() + inputs() + "[program]\ncode = '''\n" + generators() + code_ + "'''\n" +
           expectations() + policies();
  }

 private:
  static bool taken_by_input(const std::string& prefix, const std::string& name) {
    return name.starts_with(prefix) &&
           name.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    const GraphNode& node = graph_.nodes[at_];
    fail(ErrorKind::kUnsupported, Fix{"shardlab trace FILE --out g.graph keeps all of it"},
         "node {} has no statement: {}, {}", at_, kind_name(node.kind), what);
  }

  // Parts of the file.

  std::string header() const {
    const GraphMesh& mesh = graph_.meshes.at(0);
    std::string text = fmt::format("title = {}\nseed = {}\n", toml_text(graph_.title), graph_.seed);
    if (graph_.world != product(mesh.shape)) text += fmt::format("world = {}\n", graph_.world);
    if (!graph_.policies.planner.empty()) {
      text += fmt::format("planner = {}\n", toml_text(graph_.policies.planner));
    }
    text += "[mesh]\n";
    for (std::size_t dim = 0; dim < mesh.shape.size(); ++dim) {
      text += fmt::format("{} = {}\n", dim_name(mesh, dim), mesh.shape[dim]);
    }
    if (!mesh.ranks.empty()) text += fmt::format("ranks = {}\n", nested_ranks(mesh, 0, 0));
    return text;
  }

  static std::string nested_ranks(const GraphMesh& mesh, std::size_t dim, std::int64_t first) {
    std::vector<std::string> items;
    std::int64_t step = 1;
    for (std::size_t d = dim + 1; d < mesh.shape.size(); ++d) step *= mesh.shape[d];
    for (std::int64_t i = 0; i < mesh.shape[dim]; ++i) {
      const std::int64_t at = first + i * step;
      items.push_back(dim + 1 == mesh.shape.size()
                          ? fmt::format("{}", mesh.ranks[static_cast<std::size_t>(at)])
                          : nested_ranks(mesh, dim + 1, at));
    }
    return fmt::format("[{}]", fmt::join(items, ", "));
  }

  std::string inputs() {
    std::string text;
    for (const GraphNode& node : graph_.nodes) {
      if (node.kind != NodeKind::kInput) continue;
      const ValueType& type = node.results.at(0).type;
      text += fmt::format("{} = {{ type = {}", node.name, toml_text(type_text(graph_, type)));
      const InputRecipe& recipe = node.recipe;
      if (!recipe.values.empty() || recipe.init == "values" || recipe.init == "file") {
        std::size_t next = 0;
        text += ", values = " + nested(recipe.values, type.shape, 0, next, Spelling::kToml);
      } else {
        InputRecipe plain = recipe;
        plain.scale = 1;
        text += fmt::format(", init = {}", toml_text(recipe_text(plain)));
      }
      if (recipe.scale != 1) text += fmt::format(", scale = {}", literal(recipe.scale));
      if (node.requires_grad) text += ", requires_grad = true";
      text += " }\n";
    }
    return text.empty() ? text : "[inputs]\n" + text;
  }

  std::string generators() const {
    std::string text;
    for (std::size_t i = 0; i < graph_.generators.size(); ++i) {
      const RandomState& state = graph_.generators[i];
      if (state.offset != 0) {
        fail(ErrorKind::kUnsupported, Fix{"seed it in the program"},
             "generator {} had been drawn from before the graph began", i);
      }
      text += fmt::format("g{} = torch.Generator()", i);
      const bool usual = state.seed == GeneratorObject::kDefaultSeed;
      text += usual ? "\n" : fmt::format(".manual_seed({})\n", state.seed);
    }
    return text;
  }

  std::string expectations() const {
    std::string text = "[expect]\n";
    if (graph_.policies.implicit != "allow" && !graph_.policies.implicit.empty()) {
      text += fmt::format("implicit = {}\n", toml_text(graph_.policies.implicit));
    }
    if (!graph_.nodes.empty() && graph_.nodes.back().error) {
      const NodeError& error = *graph_.nodes.back().error;
      text += fmt::format("error = {{ kind = {}, contains = {} }}\n", toml_text(error.kind),
                          toml_text(error.message));
    }
    return text;
  }

  std::string policies() const {
    std::string text;
    for (const GraphPolicies::Link& link : graph_.policies.links) {
      if (text.empty()) text += "[topology]\n";
      std::vector<std::string> parts;
      if (link.gbps) parts.push_back("gbps = " + literal(*link.gbps));
      if (link.us) parts.push_back("us = " + literal(*link.us));
      text += fmt::format("{} = {{ {} }}\n", link.mesh_dim, fmt::join(parts, ", "));
    }
    for (const auto& [op, rule] : graph_.policies.rules) {
      text += fmt::format("[[rule]]\nop = {}\nrule = {}\n", toml_text(op), toml_text(rule));
    }
    return text;
  }

  // Values and arguments.

  enum class Spelling : std::uint8_t { kToml, kPython };

  std::string name(ValueRef value) {
    if (value.id < 0) return "_";
    const auto known = names_.find(value.id);
    return known != names_.end() ? known->second : fmt::format("{}{}", prefix_, value.id);
  }

  std::string scalar(const Scalar& value, Spelling spelling) const {
    switch (value.category()) {
      case Category::kBool:
        if (spelling == Spelling::kToml) return value.to_bool() ? "true" : "false";
        return value.to_bool() ? "True" : "False";
      case Category::kInteger:
        return fmt::format("{}", value.to_int());
      case Category::kFloat:
        if (spelling == Spelling::kPython) return literal(value.to_double());
        return std::isfinite(value.to_double()) ? literal(value.to_double()) : value.text();
      default:
        refuse("it has a complex number");
    }
  }

  std::string nested(const std::vector<Scalar>& values, const Dims& shape, std::size_t dim,
                     std::size_t& next, Spelling spelling) const {
    if (dim == shape.size()) {
      if (next >= values.size()) refuse("it does not say all of its elements");
      return scalar(values[next++], spelling);
    }
    std::vector<std::string> items;
    for (std::int64_t i = 0; i < shape[dim]; ++i) {
      items.push_back(nested(values, shape, dim + 1, next, spelling));
    }
    return fmt::format("[{}]", fmt::join(items, ", "));
  }

  std::string argument(const GraphArgument& argument) {
    struct Visitor {
      ScenarioWriter& writer;
      std::string operator()(std::monostate) const { return "None"; }
      std::string operator()(const Scalar& value) const {
        return writer.scalar(value, Spelling::kPython);
      }
      std::string operator()(ValueRef value) const { return writer.name(value); }
      std::string operator()(const Dims& value) const {
        return fmt::format("[{}]", fmt::join(value, ", "));
      }
      std::string operator()(DType value) const { return std::string(to_string(value)); }
      std::string operator()(const std::string& value) const { return toml_text(value); }
      std::string operator()(GeneratorRef value) const { return fmt::format("g{}", value.index); }
      std::string operator()(NumberRef) const { writer.refuse("it follows from sizes"); }
      std::string operator()(const std::vector<GraphArgument>& items) const {
        std::vector<std::string> texts;
        for (const GraphArgument& item : items) texts.push_back(writer.argument(item));
        return fmt::format("[{}]", fmt::join(texts, ", "));
      }
    };
    return std::visit(Visitor{*this}, argument.value);
  }

  // Keyword-only ones by name; those that hold None say nothing.
  std::vector<std::string> arguments_of(const GraphNode& node, const OpRow& row) {
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < node.args.size(); ++i) {
      const SchemaArgument& declared = row.op.arguments.at(i);
      const bool none = std::holds_alternative<std::monostate>(node.args[i].value);
      if (!declared.keyword_only) {
        texts.push_back(argument(node.args[i]));
      } else if (!none) {
        texts.push_back(fmt::format("{}={}", declared.name, argument(node.args[i])));
      }
    }
    return texts;
  }

  std::string mesh(std::int32_t number) {
    const GraphMesh& mesh = graph_.meshes.at(static_cast<std::size_t>(number));
    if (number == 0) return "mesh";
    if (mesh.base < 0) refuse("a mesh of the program's own");
    if (mesh.flattened) return fmt::format("m{}", number);
    return part(mesh);
  }

  std::string part(const GraphMesh& mesh) {
    std::vector<std::string> dims;
    for (const std::string& dim : mesh.part) dims.push_back(toml_text(dim));
    return fmt::format("{}[{}]", this->mesh(mesh.base), fmt::join(dims, ", "));
  }

  // tp="S(0)", for the dims that are not replicated.
  std::vector<std::string> placed(const ValueType& type) {
    const GraphMesh& on = graph_.meshes.at(static_cast<std::size_t>(type.mesh));
    std::vector<std::string> texts;
    for (std::size_t dim = 0; dim < type.placements.size(); ++dim) {
      const Placement& placement = type.placements[dim];
      if (placement == Placement::replicate()) continue;
      texts.push_back(fmt::format("{}={}", dim_name(on, dim), toml_text(to_string(placement))));
    }
    if (texts.empty() || type.mesh != 0) texts.push_back("mesh=" + mesh(type.mesh));
    return texts;
  }

  // "[8@dp, 16]{sum:tp}"
  std::string layout(const ValueType& type) {
    const std::string text = type_text(graph_, type);
    return toml_text(text.substr(text.find('[')));
  }

  // Statements.

  void statement(const GraphNode& node, const std::string& text) {
    std::vector<std::string> contexts;
    if (!node.taped) contexts.emplace_back("no_grad()");
    if (node.replicates) contexts.emplace_back("implicit_replication()");
    const std::string with =
        contexts.empty() ? "" : fmt::format("with {}:\n", fmt::join(contexts, ", "));
    if (with != with_) code_ += with;
    with_ = with;
    code_ += (with.empty() ? "" : "    ") + text + "\n";
  }

  void give(const GraphNode& node, const std::string& call) {
    std::vector<std::string> results;
    for (const GraphResult& result : node.results) results.push_back(name(result.value));
    if (node.error) results.clear();
    const std::string left = fmt::format("{}", fmt::join(results, ", "));
    statement(node, left.empty() ? call : left + " = " + call);
  }

  void write(const GraphNode& node) {
    if (node.target_view) refuse("it writes through a view");
    switch (node.kind) {
      case NodeKind::kConstant:
        return give(node, constant(node));
      case NodeKind::kOp:
        return give(node, op(node));
      case NodeKind::kFactory:
        return write_factory(node);
      case NodeKind::kDistribute:
        return give(node, distribute(node));
      case NodeKind::kRedistribute:
        return give(node, redistribute(node));
      case NodeKind::kFromLocal:
        return give(node, from_local(node));
      case NodeKind::kToLocal:
        return give(node, to_local(node));
      case NodeKind::kCollective:
        return give(node, collective(node));
      case NodeKind::kMesh:
        return write_mesh(node);
      case NodeKind::kRequireGrad:
        return statement(node, argument(node.args.at(0)) + ".requires_grad_(" +
                                   (node.required ? "" : "False") + ")");
      case NodeKind::kDetach:
        return give(node, fmt::format("{}({})", node.in_place ? "detach_" : "detach",
                                      argument(node.args.at(0))));
      case NodeKind::kBackward:
        return write_backward(node);
      case NodeKind::kDeal:
        if (dealt_) return dealt_.reset();
        refuse("pieces of no factory");
      case NodeKind::kCheckPiece:
        checked_ = {node.results.at(0).value.id, argument(node.args.at(0))};
        return;
      case NodeKind::kGradient:
        return give(node, argument(node.args.at(0)) + ".grad");
      case NodeKind::kSeed:
        return statement(
            node, fmt::format("{}.manual_seed({})",
                              node.generator ? fmt::format("g{}", node.generator->index) : "torch",
                              node.seed));
      case NodeKind::kDropGrad:
        return statement(node, argument(node.args.at(0)) + ".grad = None");
      case NodeKind::kRead:
        return statement(node, argument(node.args.at(0)) + ".tolist()");
      default:
        refuse("it is not a call");
    }
  }

  std::string constant(const GraphNode& node) {
    const ValueType& type = node.results.at(0).type;
    if (type.mesh >= 0) refuse("a distributed tensor from outside");
    if (node.data.size() != 1) refuse("ranks have elements of their own");
    if (product(type.shape) == 0) refuse("it is empty");
    std::size_t next = 0;
    return fmt::format("tensor({}, dtype={})",
                       nested(node.data[0], type.shape, 0, next, Spelling::kPython),
                       to_string(type.dtype));
  }

  const OpRow& row_of(const GraphNode& node) const {
    const OpRow* row = registry_.find(node.name);
    if (row == nullptr) refuse("the op is not known");
    return *row;
  }

  std::string op(const GraphNode& node) {
    const OpRow& row = row_of(node);
    std::vector<std::string> texts = arguments_of(node, row);
    const std::string base = row.op.base.substr(row.op.base.find("::") + 2);
    if (node.generator) {
      texts.push_back(fmt::format("generator=g{}", node.generator->index));
      return fmt::format("{}({})", base, fmt::join(texts, ", "));
    }
    const std::string space = row.op.base.substr(0, row.op.base.find("::"));
    return fmt::format("{}.{}.{}({})", space == "aten" ? space : "torch.ops." + space, base,
                       row.op.overload.empty() ? "default" : row.op.overload,
                       fmt::join(texts, ", "));
  }

  // Terms of a pending reduction are dealt out of what the factory makes.
  void write_factory(const GraphNode& node) {
    const OpRow& row = row_of(node);
    std::vector<std::string> texts = arguments_of(node, row);
    if (node.generator) texts.push_back(fmt::format("generator=g{}", node.generator->index));
    const GraphNode* made = &node;
    if (at_ + 1 < graph_.nodes.size() && graph_.nodes[at_ + 1].kind == NodeKind::kDeal &&
        graph_.nodes[at_ + 1].args.at(0) == GraphArgument{node.results.at(0).value}) {
      made = &graph_.nodes[at_ + 1];
      dealt_ = made->results.at(0).value.id;
    }
    for (std::string& text : placed(*made->target)) texts.push_back(std::move(text));
    const std::string base = row.op.base.substr(row.op.base.find("::") + 2);
    give(*made, fmt::format("{}({})", base, fmt::join(texts, ", ")));
  }

  std::string distribute(const GraphNode& node) {
    std::string call = fmt::format("distribute({}, {}", argument(node.args.at(0)),
                                   toml_text(type_text(graph_, *node.target)));
    if (node.target->mesh != 0) call += ", mesh=" + mesh(node.target->mesh);
    if (node.source) call += fmt::format(", src_data_rank={}", *node.source);
    return call + ")";
  }

  std::string redistribute(const GraphNode& node) {
    std::string call =
        fmt::format("redistribute({}, {}", argument(node.args.at(0)), layout(*node.target));
    if (node.planner) call += ", planner=" + toml_text(*node.planner);
    if (node.async) call += ", async_op=True";
    if (node.forward_dtype)
      call += fmt::format(", forward_dtype={}", to_string(*node.forward_dtype));
    if (node.backward_dtype) {
      call += fmt::format(", backward_dtype={}", to_string(*node.backward_dtype));
    }
    return call + ")";
  }

  const ValueType* type_of(const GraphArgument& argument) const {
    const auto* value = std::get_if<ValueRef>(&argument.value);
    for (const GraphNode& node : graph_.nodes) {
      for (const GraphResult& result : node.results) {
        if (value != nullptr && result.value == *value) return &result.type;
      }
    }
    return nullptr;
  }

  // The shape is said where equal pieces would not give it.
  std::string from_local(const GraphNode& node) {
    const ValueType& target = *node.target;
    std::string piece = argument(node.args.at(0));
    bool checks = false;
    if (const auto* value = std::get_if<ValueRef>(&node.args[0].value);
        value != nullptr && checked_ && checked_->first == value->id) {
      piece = checked_->second;
      checks = true;
    }
    std::vector<std::string> texts = {piece};
    const ValueType* local = type_of(node.args[0]);
    const TensorMeta equal = global_meta(*meshes_.layout(target.mesh), target.placements,
                                         {local->shape, local->stride, local->dtype});
    if (equal.shape != target.shape) {
      texts.push_back(fmt::format("shape=[{}]", fmt::join(target.shape, ", ")));
    }
    if (checks) texts.emplace_back("run_check=True");
    for (std::string& text : placed(target)) texts.push_back(std::move(text));
    return fmt::format("from_local({})", fmt::join(texts, ", "));
  }

  std::string to_local(const GraphNode& node) {
    const std::string x = argument(node.args.at(0));
    const ValueType* type = type_of(node.args[0]);
    if (without_partials(type->placements) == node.target->placements) {
      return fmt::format("to_local({})", x);
    }
    std::vector<std::string> placements;
    for (const Placement& placement : node.target->placements) {
      placements.push_back(to_string(placement));
    }
    return fmt::format("to_local({}, grad_placements=[{}])", x, fmt::join(placements, ", "));
  }

  std::string collective(const GraphNode& node) {
    std::vector<std::string> texts;
    for (const GraphArgument& one : node.args) texts.push_back(argument(one));
    const auto add = [&](const char* name, const auto& value) {
      texts.push_back(fmt::format("{}={}", name, value));
    };
    if (node.name == "all_reduce" || node.name == "reduce_scatter") add("op", to_string(node.op));
    if (node.name == "all_gather" || node.name == "reduce_scatter") add("dim", node.dim);
    if (node.name == "all_to_all") {
      add("split_dim", node.split_dim);
      add("concat_dim", node.dim);
    }
    if (node.name == "broadcast") add("src", node.source.value_or(0));
    if (node.group.mesh >= 0) add("group", group(node.group));
    return fmt::format("{}({})", node.name, fmt::join(texts, ", "));
  }

  std::string group(const GraphGroup& group) {
    if (group.dims.size() != 1) refuse("a group along several mesh dims");
    const auto& on = graph_.meshes.at(static_cast<std::size_t>(group.mesh));
    const std::string dim = toml_text(dim_name(on, static_cast<std::size_t>(group.dims[0])));
    return group.mesh == 0 ? dim : fmt::format("{}.get_group({})", mesh(group.mesh), dim);
  }

  // Parts of a mesh are constructed where they are first used.
  void write_mesh(const GraphNode& node) {
    const GraphMesh& made = graph_.meshes.at(static_cast<std::size_t>(node.mesh));
    if (!node.mesh_dims.empty() || !made.flattened) return;
    const GraphMesh& base = graph_.meshes.at(static_cast<std::size_t>(made.base));
    const std::string of = made.part == base.names ? mesh(made.base) : part(made);
    statement(node,
              fmt::format("m{} = {}._flatten({})", node.mesh, of, toml_text(made.names.at(0))));
  }

  void write_backward(const GraphNode& node) {
    if (const auto hooks = break_at(node)) refuse(hooks->explanation);
    std::string call = argument(node.args.at(0));
    std::vector<std::string> inputs;
    for (std::size_t i = 2; i < node.args.size(); ++i) inputs.push_back(argument(node.args[i]));
    if (node.of_inputs) call += fmt::format(", [{}]", fmt::join(inputs, ", "));
    const bool seeded = !std::holds_alternative<std::monostate>(node.args.at(1).value);
    if (seeded) call += ", gradient=" + argument(node.args[1]);
    if (node.retain) call += ", retain_graph=True";
    if (!node.of_inputs) return statement(node, fmt::format("backward({})", call));
    give(node,
         fmt::format("grad({}, allow_unused=True){}", call, node.results.size() == 1 ? "[0]" : ""));
  }

  const ProgramGraph& graph_;
  const OpRegistry& registry_;
  Arena arena_;
  GraphMeshes meshes_;
  std::size_t at_ = 0;
  std::map<std::int32_t, std::string> names_;
  std::string prefix_ = "v";
  std::string code_, with_;
  std::optional<std::int32_t> dealt_;  ///< written with its factory
  std::optional<std::pair<std::int32_t, std::string>>
      checked_;  ///< a piece, and what it was before
};

}  // namespace

std::string graph_scenario(const std::vector<ProgramGraph>& graphs, const OpRegistry& registry) {
  if (graphs.size() != 1) {
    fail(ErrorKind::kUnsupported, Fix{"shardlab trace FILE --out g.graph keeps all of them"},
         "the ranks have {} different graphs, and a program is one", graphs.size());
  }
  return ScenarioWriter(graphs.front(), registry).text();
}

}  // namespace shardlab
