// Values get the names of the inputs that they are, else their numbers. Two or three nodes that one
// statement makes together become that statement again.
#include "sim/graph/graph_scenario.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "api/collectives.h"
#include "base/error.h"
#include "base/text.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "sim/graph/graph_writer.h"
#include "sim/graph/hook_body.h"
#include "sim/language/values/generator.h"
#include "sim/language/values/value.h"
#include "sim/scenario/toml_text.h"
#include "trace/compare_graphs.h"
#include "trace/graph_break.h"
#include "trace/graph_text.h"

namespace shardlab {

namespace {

std::int64_t rank_at(const ProgramGraph& graph, std::size_t index) {
  return graph.ranks.empty() ? static_cast<std::int64_t>(index) : graph.ranks[index];
}

class ScenarioWriter final : public GraphWriter {
 public:
  ScenarioWriter(const ProgramGraph& graph, const OpRegistry& registry,
                 const GraphNames* names = nullptr)
      : GraphWriter(graph, registry), names_(names) {
    if (names == nullptr) return;
    for (const auto& [value, name] : names->values) rename(value, name);
  }

  std::string text() { return text_with(statements()); }
  std::string text_with(const std::string& code) {
    return header() + inputs() + "[program]\ncode = '''\n" + generators() + wholes() + code +
           "'''\n" + expectations() + policies();
  }
  using GraphWriter::statements;
  /// Values that are made from node `begin` on are those of some ranks, "v3_r1"; a distributed one
  /// is made by all, each in its text: "d2".
  void name_apart(std::size_t begin, std::int64_t rank) {
    std::set<std::int32_t> known;
    int distributed = 0;
    for (std::size_t i = 0; i < graph().nodes.size(); ++i) {
      for (const GraphResult& result : graph().nodes[i].results) {
        const bool is_new = result.value.id >= 0 && known.insert(result.value.id).second;
        if (!is_new || i < begin) continue;
        const bool apart = result.type.mesh < 0;
        rename(result.value.id, apart ? fmt::format("{}_r{}", name(result.value), rank)
                                      : fmt::format("{}{}", prefix("d"), ++distributed));
      }
    }
  }

 private:
  // Parts of the file.

  std::string header() const {
    const GraphMesh& mesh = graph().meshes.at(0);
    std::string text =
        fmt::format("title = {}\nseed = {}\n", toml_quoted(graph().title), graph().seed);
    if (graph().world != product(mesh.shape)) text += fmt::format("world = {}\n", graph().world);
    if (!graph().policies.planner.empty()) {
      text += fmt::format("planner = {}\n", toml_quoted(graph().policies.planner));
    }
    if (names_ != nullptr && !names_->backend.empty()) {
      text += fmt::format("backend = {}\n", toml_quoted(names_->backend));
    }
    text += "[mesh]\n";
    for (std::size_t dim = 0; dim < mesh.shape.size(); ++dim) {
      text += fmt::format("{} = {}\n", dim_name(mesh, dim), mesh.shape[dim]);
    }
    if (!mesh.ranks.empty()) text += fmt::format("ranks = {}\n", nested_ranks(mesh));
    return text;
  }

  // Meshes that the program has parts of alone.
  std::string wholes() {
    std::string text;
    for (std::int32_t number = 1; number < std::ssize(graph().meshes); ++number) {
      const bool made = std::ranges::any_of(graph().nodes, [&](const GraphNode& node) {
        return node.kind == NodeKind::kMesh && node.mesh == number;
      });
      const bool whole = mesh_of(number).base < 0 && !is_new_group(number);
      if (!made && whole) text += making(number) + "\n";
    }
    return text;
  }

  std::string making(std::int32_t number) {
    const GraphMesh& made = mesh_of(number);
    const std::string named =
        made.names.empty() ? "" : ", mesh_dim_names=" + quoted_list(made.names);
    return fmt::format("{} = DeviceMesh(\"cpu\", {}{}, preserve_rank_order=True)", mesh(number),
                       nested_ranks(made), named);
  }

  std::string inputs() {
    std::string text;
    for (std::size_t i = 0; i < graph().nodes.size(); ++i) {
      const GraphNode& node = graph().nodes[i];
      if (node.kind != NodeKind::kInput) continue;
      const ValueType& type = node.results.at(0).type;
      text += fmt::format("{} = {{ type = {}", node.name, toml_quoted(type_text(graph(), type)));
      const InputRecipe& recipe = node.recipe;
      if (!recipe.file.empty()) {
        text += fmt::format(", file = {}, tensor = {}", toml_quoted(recipe.file),
                            toml_quoted(recipe.tensor));
      } else if (!recipe.values.empty() || recipe.init == "values" || recipe.init == "file") {
        std::size_t next = 0;
        text += ", values = " + nested(recipe.values, type.shape, 0, next, toml_number);
      } else {
        InputRecipe plain = recipe;
        plain.scale = 1;
        text += fmt::format(", init = {}", toml_quoted(recipe_text(plain)));
      }
      if (recipe.scale != 1) text += fmt::format(", scale = {}", literal(recipe.scale));
      if (node.requires_grad) text += ", requires_grad = true";
      text += " }" + named_comment(i) + "\n";
    }
    return text.empty() ? text : "[inputs]\n" + text;
  }

  std::string generators() const {
    std::string text;
    for (std::size_t i = 0; i < graph().generators.size(); ++i) {
      const RandomState& state = graph().generators[i];
      if (state.offset != 0) {
        fail(ErrorKind::kUnsupported, Fix{"seed it in the program"},
             "generator {} had been drawn from before the graph began", i);
      }
      text += generator({static_cast<std::int32_t>(i)}) + " = torch.Generator()";
      const bool usual = state.seed == GeneratorObject::kDefaultSeed;
      text += usual ? "\n" : fmt::format(".manual_seed({})\n", state.seed);
    }
    return text;
  }

  std::string expectations() const {
    std::string text = "[expect]\n";
    if (names_ != nullptr) {
      if (names_->gradients.empty()) return "";
      return text + "grads = " + quoted_list(names_->gradients) + "\n";
    }
    if (graph().policies.implicit != "allow" && !graph().policies.implicit.empty()) {
      text += fmt::format("implicit = {}\n", toml_quoted(graph().policies.implicit));
    }
    if (!graph().nodes.empty() && graph().nodes.back().error) {
      const NodeError& error = *graph().nodes.back().error;
      text += fmt::format("error = {{ kind = {}, contains = {} }}\n", toml_quoted(error.kind),
                          toml_quoted(error.message));
    }
    return text;
  }

  std::string policies() const {
    std::string text;
    for (const GraphPolicies::Link& link : graph().policies.links) {
      if (text.empty()) text += "[topology]\n";
      std::vector<std::string> parts;
      if (link.gbps) parts.push_back("gbps = " + literal(*link.gbps));
      if (link.us) parts.push_back("us = " + literal(*link.us));
      text += fmt::format("{} = {{ {} }}\n", link.mesh_dim, text_of_list(parts, ", "));
    }
    for (const auto& [op, rule, local] : graph().policies.rules) {
      text += fmt::format("[[rule]]\nop = {}\nrule = {}\n", toml_quoted(op), toml_quoted(rule));
      if (local.empty()) continue;
      const bool as_written = local.find("'''") == std::string::npos;
      text += as_written ? "local = '''\n" + local + "'''\n"
                         : fmt::format("local = {}\n", toml_quoted(local));
    }
    return text;
  }

  // Values and arguments.

  static std::string quoted_list(std::vector<std::string> texts) {
    for (std::string& text : texts) text = toml_quoted(text);
    return list(texts);
  }

  static std::string toml_number(const Scalar& value) {
    if (value.category() == Category::kBool) return value.to_bool() ? "true" : "false";
    return value.text();
  }

  // "[[0, 1], [2, 3]]"; without ranks they count from 0. No op makes such a list, as one would make
  // arange(4).reshape([2, 2]).
  std::string nested_ranks(const GraphMesh& mesh) const {
    std::vector<Scalar> ranks(mesh.ranks.begin(), mesh.ranks.end());
    while (mesh.ranks.empty() && std::ssize(ranks) < product(mesh.shape)) {
      ranks.emplace_back(std::ssize(ranks));
    }
    std::size_t next = 0;
    return nested(ranks, mesh.shape, 0, next, toml_number);
  }

  std::string nested(const std::vector<Scalar>& values, const Dims& shape, std::size_t dim,
                     std::size_t& next, const auto& spell) const {
    if (dim == shape.size()) {
      if (next >= values.size()) refuse("it does not say all of its elements");
      return spell(values[next++]);
    }
    std::vector<std::string> items;
    for (std::int64_t i = 0; i < shape[dim]; ++i) {
      items.push_back(nested(values, shape, dim + 1, next, spell));
    }
    return list(items);
  }

  static bool is_default(const GraphNode& node, const OpRow& row, std::size_t i) {
    if (!row.op.arguments.at(i).default_text) return false;
    const Argument& usual = row.defaults().at(i);
    const auto& given = node.args[i].value;
    if (usual.is_none()) return std::holds_alternative<std::monostate>(given);
    const auto* scalar = std::get_if<Scalar>(&given);
    if (usual.is_scalar()) return scalar != nullptr && same_number(*scalar, usual.scalar());
    const auto* text = std::get_if<std::string>(&given);
    if (usual.is_string()) return text != nullptr && *text == usual.string();
    const auto* sizes = std::get_if<Dims>(&given);
    return usual.is_ints() && sizes != nullptr && *sizes == usual.ints();
  }

  std::string named_comment(std::size_t node) const {
    if (names_ == nullptr || names_->comments[node].empty()) return "";
    return "    # " + names_->comments[node];
  }

  // Keyword-only ones by name; those that hold None are left out.
  std::vector<std::string> arguments_of(const GraphNode& node, const OpRow& row) {
    std::vector<std::string> texts;
    std::size_t last = node.args.size();  // of those that are given by their places
    while (names_ != nullptr && last > 0 && is_default(node, row, last - 1)) --last;
    for (std::size_t i = 0; i < node.args.size(); ++i) {
      const SchemaArgument& declared = row.op.arguments.at(i);
      const bool none = std::holds_alternative<std::monostate>(node.args[i].value);
      if (names_ != nullptr && is_default(node, row, i) && (declared.keyword_only || i >= last)) {
        continue;
      }
      if (!declared.keyword_only) {
        texts.push_back(argument(node.args[i]));
      } else if (!none) {
        texts.push_back(fmt::format("{}={}", declared.name, argument(node.args[i])));
      }
    }
    return texts;
  }

  std::string mesh(std::int32_t number) {
    const GraphMesh& mesh = mesh_of(number);
    if (number == 0) return "mesh";
    if (is_new_group(number)) refuse("a mesh of the program's own");
    if (mesh.base < 0 || mesh.flattened) return fmt::format("{}{}", prefix("m"), number);
    return part(mesh);
  }

  std::string part(const GraphMesh& mesh) { return this->mesh(mesh.base) + quoted_list(mesh.part); }

  // tp="S(0)", for the dims that are not replicated.
  std::vector<std::string> placed(const ValueType& type) {
    const GraphMesh& on = mesh_of(type.mesh);
    std::vector<std::string> texts;
    for (std::size_t dim = 0; dim < type.placements.size(); ++dim) {
      const Placement& placement = type.placements[dim];
      if (placement == Placement::replicate()) continue;
      texts.push_back(fmt::format("{}={}", dim_name(on, dim), toml_quoted(to_string(placement))));
    }
    if (texts.empty() || type.mesh != 0) texts.push_back("mesh=" + mesh(type.mesh));
    return texts;
  }

  // Statements.

  std::string comment(const GraphNode& node) const override {
    if (names_ != nullptr) return named_comment(at());
    if (node.line == 0 || node.column > 0) return "";
    const std::string file = graph().file.substr(graph().file.rfind('/') + 1);
    return fmt::format("  # {}:{}", file, node.line);
  }
  void write(const GraphNode& node) override {
    struct Row {
      NodeKind kind;
      void (ScenarioWriter::*write)(const GraphNode& node);
    };
    static constexpr Row kRows[] = {
        {NodeKind::kConstant, &ScenarioWriter::write_constant},
        {NodeKind::kOp, &ScenarioWriter::write_op},
        {NodeKind::kFactory, &ScenarioWriter::write_factory},
        {NodeKind::kDistribute, &ScenarioWriter::write_distribute},
        {NodeKind::kRedistribute, &ScenarioWriter::write_redistribute},
        {NodeKind::kFromLocal, &ScenarioWriter::write_from_local},
        {NodeKind::kToLocal, &ScenarioWriter::write_to_local},
        {NodeKind::kCollective, &ScenarioWriter::write_collective},
        {NodeKind::kWait, &ScenarioWriter::write_wait},
        {NodeKind::kMesh, &ScenarioWriter::write_mesh},
        {NodeKind::kRequireGrad, &ScenarioWriter::write_require_grad},
        {NodeKind::kDetach, &ScenarioWriter::write_detach},
        {NodeKind::kBackward, &ScenarioWriter::write_backward},
        {NodeKind::kDeal, &ScenarioWriter::write_deal},
        {NodeKind::kCheckPiece, &ScenarioWriter::write_check_piece},
        {NodeKind::kGradient, &ScenarioWriter::write_gradient},
        {NodeKind::kSeed, &ScenarioWriter::write_seed},
        {NodeKind::kDropGrad, &ScenarioWriter::write_drop_grad},
        {NodeKind::kRead, &ScenarioWriter::write_read},
        {NodeKind::kFunction, &ScenarioWriter::write_function},
        {NodeKind::kCheckClose, &ScenarioWriter::write_check_close},
    };
    if (node.target_view) refuse("it writes through a view");
    const auto* row = std::ranges::find(kRows, node.kind, &Row::kind);
    if (row == std::end(kRows)) refuse("it is not a call");
    (this->*row->write)(node);
  }

  void give(const GraphNode& node, const std::string& call) {
    if (names_ != nullptr && names_->inside[at()] && node.results.size() == 1) {
      return rename(node.results[0].value.id, gives_list(node) ? call + "[0]" : call);
    }
    std::vector<std::string> results;
    for (const GraphResult& result : node.results) results.push_back(name(result.value));
    if (node.error) results.clear();
    std::string left = text_of_list(results, ", ");
    if (results.size() == 1 && gives_list(node)) left = "[" + left + "]";
    statement(node, left.empty() ? call : left + " = " + call);
  }

  // Also a list of one tensor.
  bool gives_list(const GraphNode& node) const {
    return node.kind == NodeKind::kOp && row_of(node).op.returns_list_of_tensors();
  }

  void write_constant(const GraphNode& node) {
    const ValueType& type = node.results.at(0).type;
    if (type.mesh >= 0) refuse("a distributed tensor from outside");
    if (node.data.empty()) refuse("its elements are not known");
    if (product(type.shape) == 0) refuse("it is empty");
    const auto spell = [&](const Scalar& value) { return scalar(value); };
    std::vector<std::string> of_ranks;
    for (const std::vector<Scalar>& elements : node.data) {
      std::size_t next = 0;
      of_ranks.push_back(nested(elements, type.shape, 0, next, spell));
    }
    std::string elements = of_ranks.front();
    if (of_ranks.size() > 1) {
      for (std::size_t i = 0; i < of_ranks.size(); ++i) {
        of_ranks[i] = fmt::format("{}: {}", rank_at(graph(), i), of_ranks[i]);
      }
      elements = fmt::format("{{{}}}[rank]", text_of_list(of_ranks, ", "));
    }
    give(node, fmt::format("tensor({}, dtype={})", elements, to_string(type.dtype)));
  }

  void write_op(const GraphNode& node) {
    const OpRow& row = row_of(node);
    std::vector<std::string> texts = arguments_of(node, row);
    const std::string base = row.op.base.substr(row.op.base.find("::") + 2);
    if (node.generator) {
      texts.push_back("generator=" + generator(*node.generator));
      return give(node, fmt::format("{}({})", base, text_of_list(texts, ", ")));
    }
    const std::string space = row.op.base.substr(0, row.op.base.find("::"));
    give(node, fmt::format("{}.{}.{}({})", space == "aten" ? space : "torch.ops." + space, base,
                           row.op.overload.empty() ? "default" : row.op.overload,
                           text_of_list(texts, ", ")));
  }

  // Terms of a pending reduction are dealt out of the factory's result.
  void write_factory(const GraphNode& node) {
    const OpRow& row = row_of(node);
    std::vector<std::string> texts = arguments_of(node, row);
    if (node.generator) texts.push_back("generator=" + generator(*node.generator));
    const GraphNode* made = &node;
    if (at() + 1 < graph().nodes.size() && graph().nodes[at() + 1].kind == NodeKind::kDeal &&
        graph().nodes[at() + 1].args.at(0) == GraphArgument{node.results.at(0).value}) {
      made = &graph().nodes[at() + 1];
      dealt_ = made->results.at(0).value.id;
    }
    for (std::string& text : placed(*made->target)) texts.push_back(std::move(text));
    const std::string base = row.op.base.substr(row.op.base.find("::") + 2);
    give(*made, fmt::format("{}({})", base, text_of_list(texts, ", ")));
  }

  void write_deal(const GraphNode&) {
    if (!dealt_) refuse("pieces of no factory");
    dealt_.reset();
  }

  void write_distribute(const GraphNode& node) {
    std::string call = fmt::format("distribute({}, {}", argument(node.args.at(0)),
                                   toml_quoted(type_text(graph(), *node.target)));
    if (node.target->mesh != 0) call += ", mesh=" + mesh(node.target->mesh);
    if (node.source) call += fmt::format(", src_data_rank={}", *node.source);
    give(node, call + ")");
  }

  void write_redistribute(const GraphNode& node) {
    const std::int32_t from = type_of(node.args.at(0)).mesh;  // -1: its one mesh
    if (node.target && from >= 0 && node.target->mesh != from) {
      return give(node, fmt::format("distribute({}, {}, mesh={})", argument(node.args.at(0)),
                                    toml_quoted(layout(*node.target)), mesh(node.target->mesh)));
    }
    if (!node.towards.empty()) {
      std::vector<std::string> texts;
      for (const auto& [dim, placement] : node.towards) {
        texts.push_back(fmt::format("{}={}", dim, to_string(placement)));
      }
      return give(node, fmt::format("{}.redistribute({})", argument(node.args.at(0)),
                                    text_of_list(texts, ", ")));
    }
    std::string call = fmt::format("redistribute({}, {}", argument(node.args.at(0)),
                                   toml_quoted(layout(*node.target)));
    if (node.planner) call += ", planner=" + toml_quoted(*node.planner);
    if (node.async) call += ", async_op=True";
    if (node.forward_dtype)
      call += fmt::format(", forward_dtype={}", to_string(*node.forward_dtype));
    if (node.backward_dtype) {
      call += fmt::format(", backward_dtype={}", to_string(*node.backward_dtype));
    }
    give(node, call + ")");
  }

  // The shape is written if equal pieces would not give it.
  void write_from_local(const GraphNode& node) {
    const ValueType& target = *node.target;
    std::string piece = argument(node.args.at(0));
    bool checks = false;
    if (const auto* value = std::get_if<ValueRef>(&node.args[0].value);
        value != nullptr && checked_ && checked_->first == value->id) {
      piece = checked_->second;
      checks = true;
    }
    std::vector<std::string> texts = {piece};
    if (!reported_by_pieces(node)) {
      texts.push_back(fmt::format("shape=[{}]", text_of_list(target.shape, ", ")));
    }
    if (checks) texts.emplace_back("run_check=True");
    for (std::string& text : placed(target)) texts.push_back(std::move(text));
    give(node, fmt::format("from_local({})", text_of_list(texts, ", ")));
  }

  void write_check_piece(const GraphNode& node) {
    checked_ = {node.results.at(0).value.id, argument(node.args.at(0))};
  }

  void write_to_local(const GraphNode& node) {
    const std::string x = argument(node.args.at(0));
    if (without_partials(type_of(node.args[0]).placements) == node.target->placements) {
      return give(node, fmt::format("to_local({})", x));
    }
    std::vector<std::string> placements;
    for (const Placement& placement : node.target->placements) {
      placements.push_back(to_string(placement));
    }
    give(node,
         fmt::format("to_local({}, grad_placements=[{}])", x, text_of_list(placements, ", ")));
  }

  void write_collective(const GraphNode& node) {
    if (node.in_place) return write_collect_into(node);
    std::vector<std::string> texts = arguments(node.args);
    if (!node.sent.empty()) {
      texts.push_back(fmt::format("[{}]", text_of_list(node.received, ", ")));
      texts.push_back(fmt::format("[{}]", text_of_list(node.sent, ", ")));
      if (node.group.mesh >= 0) texts.push_back("group=" + group(node.group));
      return give(node, fmt::format("all_to_all_single({})", text_of_list(texts, ", ")));
    }
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
    const std::string call = fmt::format("{}({})", node.name, text_of_list(texts, ", "));
    // Its result may not be dropped, where the program did not get that far.
    if (node.error && node.name != "barrier") return statement(node, "_ = " + call);
    give(node, call);
  }

  static std::string capitals(std::string_view name) {
    std::string text(name);
    for (char& c : text) c = static_cast<char>(std::toupper(c));
    return text;
  }

  // A side is a list with one tensor for each rank, or one tensor that has room for all.
  void write_collect_into(const GraphNode& node) {
    const auto side = [&](std::size_t i) {
      return arguments(std::get<std::vector<GraphArgument>>(node.args.at(i).value));
    };
    const std::vector<std::string> in = side(0), out = side(1);
    std::string name = node.name;
    std::vector<std::string> texts;
    if (name == "all_gather") {
      name = out.size() == 1 ? "all_gather_into_tensor" : name;
      texts = {out.size() == 1 ? out[0] : list(out), in.at(0)};
    } else if (name == "reduce_scatter") {
      name = in.size() == 1 ? "reduce_scatter_tensor" : name;
      texts = {out.at(0), in.size() == 1 ? in[0] : list(in)};
    } else if (name == "all_to_all") {
      const bool single = in.size() == 1 && out.size() == 1;
      name = single ? "all_to_all_single" : name;
      texts = {single ? out[0] : list(out), single ? in[0] : list(in)};
    } else if (name == "gather") {
      texts = {in.at(0), out.empty() ? "None" : list(out)};
    } else if (name == "scatter") {
      texts = {out.at(0), in.empty() ? "None" : list(in)};
    } else if (name == "send" || name == "recv") {
      texts = {name == "send" ? in.at(0) : out.at(0)};
      if (node.async) name = "i" + name;
    } else {
      texts = {in.at(0)};
    }
    const bool from_one = name == "broadcast" || name == "scatter" || name.ends_with("recv");
    const std::int64_t source = node.source.value_or(0);
    if (from_one) {
      if (source != kAnyRank) texts.push_back(fmt::format("group_src={}", source));
    } else if (node.source) {
      texts.push_back(fmt::format("group_dst={}", *node.source));
    }
    if (node.op != ReduceOp::kSum)
      texts.push_back("op=dist.ReduceOp." + capitals(to_string(node.op)));
    if (node.group.mesh >= 0) texts.push_back("group=" + group(node.group));
    if (node.tag != 0) texts.push_back(fmt::format("tag={}", node.tag));
    const bool message = name.ends_with("send") || name.ends_with("recv");
    if (node.async && !message) texts.emplace_back("async_op=True");
    statement(node, fmt::format("{}dist.{}({})", node.async ? work(node) + " = " : "", name,
                                text_of_list(texts, ", ")));
  }

  std::string work(const GraphNode& node) const {
    return fmt::format("{}{}", prefix("w"), node.work);
  }
  void write_wait(const GraphNode& node) { statement(node, work(node) + ".wait()"); }

  std::string group(const GraphGroup& group) {
    if (group.dims.size() != 1) refuse("a group along several mesh dims");
    const GraphMesh& on = mesh_of(group.mesh);
    if (is_new_group(group.mesh)) return fmt::format("{}{}", prefix("m"), group.mesh);
    const std::string dim = toml_quoted(dim_name(on, static_cast<std::size_t>(group.dims[0])));
    return group.mesh == 0 ? dim : fmt::format("{}.get_group({})", mesh(group.mesh), dim);
  }

  // One dim over ranks that are no part of another mesh, without tensors: the result of
  // dist.new_group().
  bool is_new_group(std::int32_t number) {
    const GraphMesh& mesh = mesh_of(number);
    if (number == 0 || mesh.base >= 0 || mesh.shape.size() != 1) return false;
    const auto [known, is_new] = has_tensors_.try_emplace(number, false);
    if (!is_new) return !known->second;
    known->second = std::ranges::any_of(graph().nodes, [&](const GraphNode& node) {
      return (node.target && node.target->mesh == number) ||
             std::ranges::any_of(node.results, [&](const GraphResult& result) {
               return result.type.mesh == number;
             });
    });
    return !known->second;
  }

  // Parts of a mesh are constructed where they are first used.
  void write_mesh(const GraphNode& node) {
    const GraphMesh& made = mesh_of(node.mesh);
    if (is_new_group(node.mesh)) {
      std::vector<std::int64_t> ranks = made.ranks;
      for (std::int64_t rank = 0; made.ranks.empty() && rank < made.shape[0]; ++rank) {
        ranks.push_back(rank);
      }
      return statement(node, fmt::format("{}{} = dist.new_group([{}], sort_ranks=False)",
                                         prefix("m"), node.mesh, text_of_list(ranks, ", ")));
    }
    if (!node.mesh_dims.empty()) return;
    if (node.mesh != 0 && made.base < 0) return statement(node, making(node.mesh));
    if (!made.flattened) return;
    const std::string of = made.part == mesh_of(made.base).names ? mesh(made.base) : part(made);
    statement(node, fmt::format("{} = {}._flatten({})", mesh(node.mesh), of,
                                toml_quoted(made.names.at(0))));
  }

  void write_require_grad(const GraphNode& node) {
    statement(node, argument(node.args.at(0)) + ".requires_grad_(" +
                        (node.required ? "" : "False") + ")");
  }
  void write_detach(const GraphNode& node) {
    give(node,
         fmt::format("{}({})", node.in_place ? "detach_" : "detach", argument(node.args.at(0))));
  }
  void write_gradient(const GraphNode& node) { give(node, argument(node.args.at(0)) + ".grad"); }
  void write_seed(const GraphNode& node) {
    statement(node, fmt::format("{}.manual_seed({})",
                                node.generator ? generator(*node.generator) : "torch", node.seed));
  }
  void write_check_close(const GraphNode& node) {
    statement(node, fmt::format("assert_close({})", text_of_list(arguments(node.args), ", ")));
  }
  void write_drop_grad(const GraphNode& node) {
    statement(node, argument(node.args.at(0)) + ".grad = None");
  }
  void write_read(const GraphNode& node) {
    statement(node, argument(node.args.at(0)) + ".tolist()");
  }

  void write_backward(const GraphNode& node) {
    if (const auto hooks = break_at(node)) refuse(hooks->explanation);
    std::string call = argument(node.args.at(0));
    std::vector<std::string> inputs;
    for (std::size_t i = 2; i < node.args.size(); ++i) inputs.push_back(argument(node.args[i]));
    if (node.of_inputs) call += fmt::format(", [{}]", text_of_list(inputs, ", "));
    const bool seeded = !std::holds_alternative<std::monostate>(node.args.at(1).value);
    if (seeded) call += ", gradient=" + argument(node.args[1]);
    if (node.graph == Graph::kRetain) call += ", retain_graph=True";
    if (node.graph == Graph::kCreate) call += ", create_graph=True";
    if (!node.of_inputs) return statement(node, fmt::format("backward({})", call));
    give(node,
         fmt::format("grad({}, allow_unused=True){}", call, node.results.size() == 1 ? "[0]" : ""));
  }

  // A class for each call. Its results are there already, and get their places on the tape.
  void write_function(const GraphNode& node) {
    if (in_body()) refuse("it is called inside of the backward of another");
    const HookBody body(graph(), node.hook);
    if (!body.why_not.empty()) refuse("its backward: " + body.why_not);
    const bool called = body.begin != body.end;
    const std::string own = class_name(node), taken = prefix("a");
    const std::vector<GraphArgument>& arguments = list_of(node, 0);
    std::string text = fmt::format("class {}(torch.autograd.Function):\n", own);
    text += method("def forward", numbered(taken, arguments.size()));
    const auto set = [&](std::string_view function, const std::string& with) {
      text += fmt::format("        ctx.{}({})\n", function, with);
    };
    const auto tensors = [&](std::size_t position) {
      return text_of_list(this->arguments(list_of(node, position)), ", ");
    };
    if (!list_of(node, 2).empty()) set("save_for_backward", tensors(2));
    if (!list_of(node, 3).empty()) set("mark_non_differentiable", tensors(3));
    if (!node.zeros) set("set_materialize_grads", "False");
    text += fmt::format("        return {}\n", tensors(1));
    text += method(node.once ? "@once_differentiable\n    def backward" : "def backward",
                   called ? gradients_of(graph().nodes[body.begin], taken)
                          : numbered(taken, list_of(node, 1).size()));
    if (called) text += backward_lines(body);
    const std::vector<GraphArgument> none(arguments.size());
    text += fmt::format(
        "        return {}",
        text_of_list(this->arguments(called ? graph().nodes[body.end].args : none), ", "));
    statement(text);
    give(node, fmt::format("{}.apply({})", own, tensors(0)));
  }

  // The program's name for it, where that is one here, too.
  std::string class_name(const GraphNode& node) const {
    const auto letter = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    };
    const bool plain = !node.name.empty() &&
                       std::isupper(static_cast<unsigned char>(node.name[0])) &&
                       std::ranges::all_of(node.name, letter);
    const bool taken = std::ranges::any_of(graph().nodes, [&](const GraphNode& other) {
      return other.kind == NodeKind::kInput && other.name == node.name;
    });
    return plain && !taken ? node.name : fmt::format("{}{}", prefix("F"), node.hook);
  }

  static std::string method(std::string_view def, const std::vector<std::string>& parameters) {
    std::string text = fmt::format("    @staticmethod\n    {}(ctx", def);
    for (const std::string& parameter : parameters) text += ", " + parameter;
    return text + "):\n";
  }

  static std::vector<std::string> numbered(const std::string& letter, std::size_t count) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i) names.push_back(fmt::format("{}{}", letter, i));
    return names;
  }

  // A gradient has its own name, the first time that it arrives.
  std::vector<std::string> gradients_of(const GraphNode& call, const std::string& letter) const {
    std::vector<std::string> names = numbered(letter, call.results.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string own = name(call.results[i].value);
      const bool first = std::find(names.begin(), names.end(), own) == names.end();
      if (call.results[i].value.id >= 0 && first) names[i] = own;
    }
    return names;
  }

  bool is_given_before(std::size_t end, ValueRef value) const {
    const std::vector<GraphNode>& nodes = graph().nodes;
    return std::any_of(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(end),
                       [&](const GraphNode& node) {
                         return std::ranges::find(node.results, value, &GraphResult::value) !=
                                node.results.end();
                       });
  }

  std::string backward_lines(const HookBody& body) {
    for (std::size_t i = body.begin; i < body.end; ++i) {
      for (const GraphResult& result : graph().nodes[i].results) {
        if (!body.shared.contains(result.value.id)) continue;
        if (i == body.begin && is_given_before(i, result.value)) continue;
        refuse("its backward makes, or writes, a value that others take");
      }
    }
    return indented_code(this->body(body.begin + 1, body.end), "        ");
  }

  std::map<std::int32_t, bool> has_tensors_;                     // meshes of one dim
  const GraphNames* names_ = nullptr;                            ///< null: the writer's own
  std::optional<std::int32_t> dealt_;                            ///< written with its factory
  std::optional<std::pair<std::int32_t, std::string>> checked_;  ///< a piece, and its former value
};

// The number of nodes that all ranks have in common, from the first one on.
std::size_t common_nodes(const std::vector<ProgramGraph>& graphs) {
  std::size_t common = graphs.front().nodes.size();
  for (const ProgramGraph& graph : graphs) {
    const auto difference = first_difference(graphs.front(), graph, Places::kIgnored);
    if (difference) common = std::min(common, difference->node);
  }
  return common;
}

// These nodes, with the elements that each rank has.
ProgramGraph of_all_ranks(const std::vector<ProgramGraph>& graphs, std::size_t nodes) {
  ProgramGraph all = graphs.front();
  all.ranks.clear();
  all.nodes.resize(nodes);
  for (std::size_t i = 0; i < nodes; ++i) {
    if (all.nodes[i].kind != NodeKind::kConstant) continue;
    std::map<std::int64_t, std::vector<Scalar>> by_rank;
    for (const ProgramGraph& graph : graphs) {
      const auto& data = graph.nodes[i].data;
      for (std::size_t rank = 0; !data.empty() && rank < graph.ranks.size(); ++rank) {
        by_rank[graph.ranks[rank]] = data[data.size() == 1 ? 0 : rank];
      }
    }
    const bool same = std::ranges::all_of(
        by_rank, [&](const auto& one) { return one.second == by_rank.begin()->second; });
    all.nodes[i].data.clear();
    for (auto& [rank, elements] : by_rank) {
      if (same && !all.nodes[i].data.empty()) break;
      all.nodes[i].data.push_back(std::move(elements));
    }
  }
  return all;
}

}  // namespace

std::string graph_scenario(const ProgramGraph& graph, const OpRegistry& registry,
                           const GraphNames& names) {
  return ScenarioWriter(graph, registry, &names).text();
}

std::string graph_scenario(const std::vector<ProgramGraph>& graphs, const OpRegistry& registry) {
  if (graphs.front().dynamic) {
    fail(ErrorKind::kUnsupported, Fix{"shardlab trace FILE --out g.graph keeps its sizes open"},
         "the graph admits other sizes, and a program that is written out has those of now");
  }
  if (graphs.size() == 1) return ScenarioWriter(graphs.front(), registry).text();
  const std::size_t common = common_nodes(graphs);
  const ProgramGraph all = of_all_ranks(graphs, common);
  ScenarioWriter writer(all, registry);
  std::string code = writer.statements();
  // Ranks that differ in sizes alone have one text. Others have values of their own.
  std::vector<std::pair<std::string, const ProgramGraph*>> blocks;  // with the first graph
  std::vector<std::vector<std::int64_t>> ranks;
  for (const ProgramGraph& graph : graphs) {
    const std::string rest = ScenarioWriter(graph, registry).statements(common, graph.nodes.size());
    const auto known = std::ranges::find(blocks, rest, [](const auto& one) { return one.first; });
    const auto at = static_cast<std::size_t>(known - blocks.begin());
    if (known == blocks.end()) {
      blocks.emplace_back(rest, &graph);
      ranks.emplace_back();
    }
    ranks[at].insert(ranks[at].end(), graph.ranks.begin(), graph.ranks.end());
  }
  if (blocks.size() == 1) return writer.text_with(code + blocks[0].first);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].first.empty()) continue;
    const ProgramGraph& graph = *blocks[i].second;
    ScenarioWriter part(graph, registry);
    part.name_apart(common, ranks[i].front());
    std::ranges::sort(ranks[i]);
    code += fmt::format("if rank in [{}]:\n", text_of_list(ranks[i], ", ")) +
            indented_code(part.statements(common, graph.nodes.size()), "    ");
  }
  return writer.text_with(code);
}

}  // namespace shardlab
