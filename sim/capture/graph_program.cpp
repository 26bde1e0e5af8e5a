// Every value is a variable of the function that each rank runs, declared at its first use; a block
// declares its new variables before itself. The program's options (planner, links, rules, seed) are
// outside of that function.
#include "sim/capture/graph_program.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "api/op_functions.h"
#include "base/text_of_list.h"
#include "mesh/shard_order.h"
#include "schema/op_row.h"
#include "sim/capture/cpp_options.h"
#include "sim/capture/cpp_words.h"
#include "sim/capture/graph_writer.h"
#include "sim/capture/hook_body.h"
#include "trace/graph_break.h"
#include "trace/graph_text.h"

namespace shardlab {

namespace {

std::string joined(const std::vector<std::string>& texts) { return text_of_list(texts, ", "); }

class ProgramWriter final : public GraphWriter {
 public:
  ProgramWriter(const std::vector<ProgramGraph>& graphs, const OpRegistry& registry)
      : GraphWriter(graphs, registry) {
    for (const GraphNode& node : graph().nodes) {
      if (node.kind != NodeKind::kInput) continue;
      const std::int32_t value = node.results.at(0).value.id;
      known_.insert(value);
      std::string name = cpp_identifier(node.name);
      while (name != node.name && is_input(name)) name += "_";
      rename(value, std::move(name));
    }
  }

  std::string text() {
    const bool fails = !graph().nodes.empty() && graph().nodes.back().error.has_value();
    const std::string given = inputs(), code = statements(), reported = fails ? "" : digests();
    const std::string arguments = uses_rank_ ? "RankContext& rank" : "RankContext&";
    std::string text = cpp_head(graph(), given + code) + "int main() " + (fails ? "try " : "") +
                       "{\n" + cpp_options(graph());
    text += fmt::format("  spmd(options, []({}) {{\n{}", arguments, main_mesh() + generators());
    if (uses_ops_) text += "    Calls& ops = program_calls();\n";
    text += given + code + reported + "  });\n";
    if (!fails) return text + "}\n";
    return text +
           "} catch (const Error& error) {\n"
           "  std::fprintf(stderr, \"error: %s\\n\", error.text().c_str());\n"
           "  return 1;\n"
           "}\n";
  }

 private:
  bool is_input(const std::string& name) const {
    return std::ranges::any_of(graph().nodes, [&](const GraphNode& node) {
      return node.kind == NodeKind::kInput && node.name == name;
    });
  }

  // Parts of the program.

  std::string main_mesh() const {
    return fmt::format("    {}{};\n", uses_mesh_ ? "const MeshLayout* mesh = " : "",
                       cpp_mesh(mesh_of(0)));
  }

  std::string generators() const {
    std::string text;
    for (std::size_t i = 0; i < graph().generators.size(); ++i) {
      const RandomState& state = graph().generators[i];
      text += fmt::format(
          "    const Generator {} = std::make_shared<RandomState>(RandomState{{{}, {}}});\n",
          generator({static_cast<std::int32_t>(i)}), cpp_unsigned(state.seed),
          cpp_unsigned(state.offset));
    }
    return text;
  }

  std::string inputs() {
    std::string text;
    for (const GraphNode& node : graph().nodes) {
      if (node.kind != NodeKind::kInput) continue;
      const GraphResult& result = node.results.at(0);
      const std::string value = name(result.value);
      const InputRecipe& recipe = node.recipe;
      text +=
          fmt::format("    const DTensor {} = make_input({}, {}, {}", value, cpp_text(node.name),
                      cpp_text(type_text(graph(), result.type)), mesh(result.type.mesh));
      if (!is_usual(recipe)) text += ",\n        " + cpp_recipe(recipe);
      text += ");\n";
      if (node.requires_grad) text += fmt::format("    require_grad({});\n", value);
    }
    return text;
  }

  std::string digests() const {
    std::string text = "    print_digests({";
    for (const ValueRef value : graph().left) {
      text += fmt::format("{}\n        {{{}, {}}}", text.ends_with('{') ? "" : ",",
                          cpp_text(name(value)), name(value));
    }
    return text + "});\n";
  }

  // Constants.

  std::string none() const override { return "Argument()"; }
  std::string scalar(const Scalar& value) const override { return cpp_number(value); }
  std::string sizes(const Dims& value) const override { return cpp_dims(value); }
  std::string dtype(DType value) const override { return cpp_name(value); }
  std::string quoted(const std::string& value) const override { return cpp_text(value); }
  std::string list(const std::vector<std::string>& items) const override {
    return fmt::format("ArgumentList{{{}}}", joined(items));
  }

  // Meshes and groups.

  std::string mesh(std::int32_t number) {
    if (number == 0) {
      uses_mesh_ = true;
      return "mesh";
    }
    const std::string variable = fmt::format("{}{}", prefix("m"), number);
    if (!made_.insert(number).second) return variable;
    if (in_body()) refuse("it makes a mesh inside of a hook");
    const GraphMesh& made = mesh_of(number);
    const std::string call = made.base < 0 ? cpp_mesh(made) : part(made);
    statement((is_said(number) ? "const MeshLayout* " + variable + " = " : "") + call + ";");
    return variable;
  }

  // True when a statement names the mesh, in addition to the one that makes it.
  bool is_said(std::int32_t number) const {
    const auto named = [&](const GraphNode& node) {
      const bool placed = node.kind != NodeKind::kRedistribute && node.kind != NodeKind::kToLocal &&
                          node.target && node.target->mesh == number;
      const bool grouped = node.kind == NodeKind::kCollective && node.group.mesh == number;
      return placed || grouped || (!node.mesh_dims.empty() && node.mesh == number);
    };
    return std::ranges::any_of(graph().nodes, named) ||
           std::ranges::any_of(graph().meshes,
                               [&](const GraphMesh& mesh) { return mesh.base == number; });
  }

  // If only a flat mesh was asked for, redistributions on its base are not changed by it.
  std::string part(const GraphMesh& made) {
    const std::string base = mesh(made.base), dims = cpp_texts(made.part);
    if (!made.flattened) return fmt::format("submesh({}, {})", base, dims);
    const std::string flat = cpp_text(made.names.at(0));
    if (flattened_ == made.base) return fmt::format("flattened_mesh({}, {}, {})", base, dims, flat);
    uses_rank_ = true;
    return fmt::format(
        "construct_mesh(flatten_layout({0}, std::vector<std::string>{1}, "
        "{0}->coordinate_of(rank.rank).value_or({0}->coordinate_at_index(0)), {2}))",
        base, dims, flat);
  }

  void write_mesh(const GraphNode& node) override {
    if (node.mesh_dims.empty()) {
      mesh(node.mesh);
      return;
    }
    std::vector<std::string> dims;
    for (const std::int64_t dim : node.mesh_dims) {
      dims.push_back(dim_name(mesh_of(node.mesh), static_cast<std::size_t>(dim)));
    }
    if (at() + 1 < graph().nodes.size() && makes_flat(graph().nodes[at() + 1], node.mesh, dims)) {
      flattened_ = node.mesh;
      mesh(graph().nodes[at() + 1].mesh);
      flattened_ = -1;
      return;
    }
    const std::string of = mesh(node.mesh);
    statement(fmt::format("flatten_mesh({}, {});", of, cpp_texts(dims)));
  }

  // flattened_mesh() does both.
  bool makes_flat(const GraphNode& node, std::int32_t base,
                  const std::vector<std::string>& dims) const {
    if (node.kind != NodeKind::kMesh || !node.mesh_dims.empty()) return false;
    const GraphMesh& made = mesh_of(node.mesh);
    return made.flattened && made.base == base && made.part == dims && !made_.contains(node.mesh);
  }

  std::string group(const GraphGroup& group) {
    if (group.mesh < 0) return "world_group()";
    const std::string of = mesh(group.mesh);
    if (group.dims.size() != 1) {
      return fmt::format("device_mesh({}).group(std::vector<std::size_t>{{{}}})", of,
                         text_of_list(group.dims, ", "));
    }
    const auto dim = static_cast<std::size_t>(group.dims[0]);
    return fmt::format("get_group({}, {})", of, cpp_text(dim_name(mesh_of(group.mesh), dim)));
  }

  // Statements.

  std::string indent(bool in_block) const override { return in_block ? "      " : "    "; }

  std::string opening(const Around& around) override {
    std::string text;
    if (!made_in_block_.empty()) text = fmt::format("    DTensor {};\n", joined(made_in_block_));
    made_in_block_.clear();
    text += "    {\n";
    if (around.no_grad) text += "      const GradModeScope no_grad(false);\n";
    if (around.records) text += "      const GradModeScope records(true);\n";
    if (around.targets) text += "      const TargetScope to_overwrite;\n";
    if (around.replicates) text += "      rank.mixed = MixedTensors::kReplicate;\n";
    uses_rank_ = uses_rank_ || around.replicates;
    return text;
  }

  std::string closing(const Around& around) override {
    return std::string(around.replicates ? "      rank.mixed = MixedTensors::kRefuse;\n" : "") +
           "    }\n";
  }

  // The type is written as a comment where the value is made.
  void make(const GraphNode& node, const GraphResult& result, const std::string& call) {
    const bool in_block = around_of(node) != Around{};
    const std::string value = name(result.value);
    known_.insert(result.value.id);
    const bool declared = early_.contains(result.value.id);
    if (in_block && !declared) made_in_block_.push_back(value);
    statement(node, fmt::format("{}{} = {};  // {}", in_block || declared ? "" : "const DTensor ",
                                value, call, type_text(graph(), result.type)));
  }

  bool is_new(const GraphNode& node, const GraphResult& result) const {
    return !node.error && result.value.id >= 0 && !known_.contains(result.value.id);
  }

  // A known value is the same handle again.
  void give(const GraphNode& node, const std::string& call) override {
    if (node.results.size() == 1 && is_new(node, node.results[0])) {
      return make(node, node.results[0], call);
    }
    statement(node, call + ";");
  }

  // Several results, kept in a variable of this type from which each is taken.
  void give_several(const GraphNode& node, const std::string& type, const std::string& call,
                    std::string_view each) {
    const bool any = std::ranges::any_of(
        node.results, [&](const GraphResult& result) { return is_new(node, result); });
    if (!any) return statement(node, call + ";");
    const std::string variable = fmt::format("{}{}", prefix("r"), at());
    statement(node, fmt::format("const {} {} = {};", type, variable, call));
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      if (!is_new(node, node.results[i])) continue;
      make(node, node.results[i], variable + fmt::format(fmt::runtime(each), i));
    }
  }

  void write_constant(const GraphNode& node) override {
    const GraphResult& result = node.results.at(0);
    if (result.type.mesh >= 0) refuse("a distributed tensor from outside");
    const bool by_rank = node.data.size() != 1;
    if (by_rank && static_cast<std::int64_t>(node.data.size()) != graph().world) {
      refuse("it does not have the elements of all ranks");
    }
    std::string values;
    for (const std::vector<Scalar>& one : node.data) {
      values += (values.empty() ? "" : ", ") + cpp_numbers(one);
    }
    if (by_rank) {
      uses_rank_ = true;
      values = fmt::format(
          "std::vector<std::vector<Scalar>>{{{}}}[static_cast<std::size_t>(rank.rank)]", values);
    }
    const std::string type = cpp_dims(result.type.shape) + ", " + cpp_name(result.type.dtype);
    const bool exact = !by_rank && std::ranges::all_of(node.data[0], [](const Scalar& value) {
      constexpr std::int64_t kExact = std::int64_t{1} << 53;
      return value.category() == Category::kFloat ||
             (value.is_integral() && value.to_int() <= kExact && value.to_int() >= -kExact);
    });
    give(node, exact ? fmt::format("tensor({}, {})", values, type)
                     : fmt::format("DTensor(tensor_from({}, {}))", values, type));
    if (node.requires_grad) statement(node, fmt::format("require_grad({});", name(result.value)));
  }

  // As many arguments as have to be written; those that follow have their defaults.
  std::vector<std::string> said(const GraphNode& node, const OpRow& row) {
    std::size_t count = node.args.size();
    while (count > 0 && is_default(node.args[count - 1], row, count - 1)) --count;
    const auto first = node.args.begin();
    return arguments({first, first + static_cast<std::ptrdiff_t>(count)});
  }

  std::string all_arguments(const GraphNode& node) {
    return "{" + joined(arguments(node.args)) + "}";
  }

  void write_op(const GraphNode& node) override {
    const OpRow& row = row_of(node);
    const bool several = row.op.returns.size() > 1 || row.op.returns_list_of_tensors();
    if (node.generator) {
      if (several) refuse("several results are drawn from a generator");
      uses_ops_ = true;
      return give(
          node, fmt::format("make_tensor(ops.find({}), {}, nullptr, {{}}, {})", cpp_text(node.name),
                            all_arguments(node), generator(*node.generator)));
    }
    const std::vector<std::string> texts = said(node, row);
    const OpFunction* function = function_of(node.name);
    const bool plain =
        function != nullptr && texts.size() <= function->most &&
        std::ranges::none_of(node.args.begin(), node.args.begin() + std::ssize(texts), is_none);
    if (plain)
      return give(node, fmt::format("{}({})", function->name, plain_arguments(node, texts)));
    uses_ops_ = true;
    const std::string call = fmt::format("{}, {{{}}})", cpp_text(node.name), joined(texts));
    if (row.op.returns_list_of_tensors()) {
      if (row.op.returns.size() > 1) refuse("it gives a list among other results");
      return give_several(node, "Results", "ops(" + call, ".at(0).list().at({}).tensor()");
    }
    if (several) return give_several(node, "Results", "ops(" + call, ".at({}).tensor()");
    const bool tensor = node.results.size() == 1 && is_new(node, node.results[0]);
    give(node, (tensor ? "ops.one(" : "ops(") + call);
  }

  // A list of tensors needs no type there.
  std::string plain_arguments(const GraphNode& node, const std::vector<std::string>& texts) {
    std::vector<std::string> plain = texts;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto* items = std::get_if<std::vector<GraphArgument>>(&node.args[i].value);
      if (items != nullptr) plain[i] = "{" + joined(arguments(*items)) + "}";
    }
    return joined(plain);
  }

  void write_factory(const GraphNode& node) override {
    const ValueType& target = *node.target;
    if (!is_default_order(target.placements, target.order)) refuse("its shards have another order");
    const bool replicated = std::ranges::all_of(target.placements, &Placement::is_replicate);
    const std::string placements = replicated ? "{}" : cpp_placements(target.placements);
    const std::string on = mesh(target.mesh);
    if (const std::string call = plain_factory(node, on, placements); !call.empty()) {
      return give(node, call);
    }
    uses_ops_ = true;
    give(node, fmt::format("make_tensor(ops.find({}), {}, {}, {}{})", cpp_text(node.name),
                           all_arguments(node), on, placements,
                           node.generator ? ", " + generator(*node.generator) : ""));
  }

  // A function of api/factories.h, if the row has no other arguments than it takes.
  std::string plain_factory(const GraphNode& node, const std::string& on,
                            const std::string& placements) {
    constexpr std::pair<std::string_view, std::size_t> kPlain[] = {
        {"aten::zeros", 1}, {"aten::ones", 1},  {"aten::full", 2},
        {"aten::rand", 1},  {"aten::randn", 1}, {"aten::arange", 1}};
    const auto* const plain =
        std::ranges::find(kPlain, node.name, &std::pair<std::string_view, std::size_t>::first);
    if (plain == std::end(kPlain) || node.generator) return "";
    const OpRow& row = row_of(node);
    std::vector<std::string> texts;
    std::string dtype = "std::nullopt";
    for (std::size_t i = 0; i < node.args.size(); ++i) {
      const auto* number = std::get_if<Scalar>(&node.args[i].value);
      if (i < plain->second) {
        if (node.name == "aten::arange" && !number->is_integral()) return "";
        texts.push_back(argument(node.args[i]));
      } else if (row.op.arguments[i].name == "dtype" && !is_none(node.args[i])) {
        dtype = argument(node.args[i]);
      } else if (!is_default(node.args[i], row, i)) {
        return "";
      }
    }
    return fmt::format("{}({}, {{{}, {}, {}}})", plain->first.substr(plain->first.find("::") + 2),
                       joined(texts), on, placements, dtype);
  }

  void write_deal(const GraphNode& node) override {
    const std::string pieces = argument(node.args.at(0));
    give(node, fmt::format("deal_partials({0}, spec_of({1}, {2}, {0}.meta()))", pieces,
                           cpp_text(layout(*node.target)), mesh(node.target->mesh)));
  }

  void write_distribute(const GraphNode& node) override {
    const std::string source = node.source ? fmt::format(", {}", *node.source) : "";
    give(node, fmt::format("distribute_tensor({}, {}, {}{})", argument(node.args.at(0)),
                           mesh(node.target->mesh), cpp_text(layout(*node.target)), source));
  }

  void write_redistribute(const GraphNode& node) override {
    std::string call = fmt::format("redistribute({}, {}", argument(node.args.at(0)),
                                   cpp_text(layout(*node.target)));
    const bool dtypes = node.forward_dtype || node.backward_dtype;
    if (node.async || node.planner) {
      call += fmt::format(
          ", {{.issue = {}, .planner = {}}}", node.async ? "Issue::kAsync" : "Issue::kWait",
          node.planner ? cpp_enumerator("PlannerKind", *node.planner) : "std::nullopt");
    } else if (dtypes) {
      call += ", {}";
    }
    const auto text = [](std::optional<DType> dtype) {
      return dtype ? cpp_name(*dtype) : std::string("std::nullopt");
    };
    if (dtypes) {
      call += fmt::format(", {{.forward = {}, .backward = {}}}", text(node.forward_dtype),
                          text(node.backward_dtype));
    }
    give(node, call + ")");
  }

  // Placements by mesh dim; the shape is written if equal pieces would not give it.
  void write_from_local(const GraphNode& node) override {
    const ValueType& target = *node.target;
    const GraphMesh& on = mesh_of(target.mesh);
    std::vector<std::string> placed;
    for (std::size_t dim = 0; dim < target.placements.size(); ++dim) {
      if (target.placements[dim].is_replicate()) continue;
      placed.push_back(dim_name(on, dim) + "=" + to_string(target.placements[dim]));
    }
    std::string call = fmt::format("from_local({}, {}, {}", argument(node.args.at(0)),
                                   mesh(target.mesh), cpp_text(joined(placed)));
    if (!reported_by_pieces(node)) call += ", " + cpp_dims(target.shape);
    give(node, call + ")");
  }

  void write_check_piece(const GraphNode& node) override {
    give(node, fmt::format("DTensor(checked_piece({}.local(), {}, {}))", argument(node.args.at(0)),
                           mesh(node.target->mesh), cpp_placements(node.target->placements)));
  }

  void write_to_local(const GraphNode& node) override {
    const std::string x = argument(node.args.at(0));
    const Placements& gradient = node.target->placements;
    const bool usual = without_partials(type_of(node.args[0]).placements) == gradient;
    give(node, usual ? fmt::format("to_local({})", x)
                     : fmt::format("to_local({}, Placements{})", x, cpp_placements(gradient)));
  }

  void write_collective(const GraphNode& node) override {
    std::vector<std::string> texts = arguments(node.args);
    const auto add = [&](std::int64_t number) { texts.push_back(fmt::format("{}", number)); };
    const bool reduces = node.name == "all_reduce" || node.name == "reduce_scatter";
    const bool exchanges = node.name == "all_to_all", in_rows = !node.sent.empty();
    if (in_rows) {
      texts.push_back(fmt::format("Dims{{{}}}", text_of_list(node.sent, ", ")));
      texts.push_back(fmt::format("Dims{{{}}}", text_of_list(node.received, ", ")));
    }
    if (exchanges && !in_rows) add(node.split_dim);
    if (node.name == "all_gather" || node.name == "reduce_scatter" || (exchanges && !in_rows)) {
      add(node.dim);
    }
    if (reduces) texts.push_back(cpp_name(node.op));
    if (node.name == "broadcast") add(node.source.value_or(0));
    texts.push_back(group(node.group));
    give(node, fmt::format("{}({})", node.name, joined(texts)));
  }

  // "AllReduce" of "all_reduce".
  static std::string in_one_word(const std::string& name) {
    std::string word;
    for (std::size_t i = 0; i < name.size(); ++i) {
      if (name[i] == '_') continue;
      const bool capital = i == 0 || name[i - 1] == '_';
      word += capital ? static_cast<char>(std::toupper(name[i])) : name[i];
    }
    return word;
  }

  void write_collect_into(const GraphNode& node) override {
    const auto side = [&](std::size_t i) {
      return joined(arguments(std::get<std::vector<GraphArgument>>(node.args.at(i).value)));
    };
    std::string what = fmt::format(".kind = {}, .inputs = {{{}}}, .outputs = {{{}}}",
                                   "CollectiveKind::k" + in_one_word(node.name), side(0), side(1));
    if (node.op != ReduceOp::kSum) what += ", .op = " + cpp_name(node.op);
    if (node.source) what += fmt::format(", .root = {}", *node.source);
    if (node.tag != 0) what += fmt::format(", .tag = {}", node.tag);
    const std::string on = group(node.group);
    const std::string left =
        node.async ? fmt::format("const CollectiveWorkRef {} = start_", work(node)) : "";
    statement(node, fmt::format("{}collect_into({{{}}}, {});", left, what, on));
  }

  std::string work(const GraphNode& node) const {
    return fmt::format("{}{}", prefix("w"), node.work);
  }
  void write_wait(const GraphNode& node) override {
    statement(node, fmt::format("wait({});", work(node)));
  }

  void write_require_grad(const GraphNode& node) override {
    statement(node, fmt::format("{}({});", node.required ? "require_grad" : "require_no_grad",
                                argument(node.args.at(0))));
  }
  void write_detach(const GraphNode& node) override {
    give(node, fmt::format("{}({})", node.in_place ? "detach_in_place" : "detach",
                           argument(node.args.at(0))));
  }
  void write_gradient(const GraphNode& node) override {
    give(node, fmt::format("grad_of({})", argument(node.args.at(0))));
  }
  void write_seed(const GraphNode& node) override {
    statement(node,
              fmt::format("manual_seed({}{});", cpp_unsigned(node.seed),
                          node.generator ? ", " + generator(*node.generator) : std::string()));
  }
  void write_drop_grad(const GraphNode& node) override {
    statement(node, fmt::format("drop_grad({});", argument(node.args.at(0))));
  }
  // Numbers that were read are constants by now.
  void write_read(const GraphNode& node) override {
    statement(node, fmt::format("read_doubles({}.local());", argument(node.args.at(0))));
  }

  void write_backward(const GraphNode& node) override {
    if (const auto hooks = break_at(node)) refuse(hooks->explanation);
    const std::string loss = argument(node.args.at(0));
    std::string rest;
    if (!is_none(node.args.at(1)) || node.graph != Graph::kFree) {
      rest = ", " + (is_none(node.args[1]) ? std::string("DTensor()") : argument(node.args[1]));
    }
    if (node.graph == Graph::kRetain) rest += ", Graph::kRetain";
    if (node.graph == Graph::kCreate) rest += ", Graph::kCreate";
    if (!node.of_inputs) return statement(node, fmt::format("backward({}{});", loss, rest));
    const std::vector<GraphArgument> inputs(node.args.begin() + 2, node.args.end());
    give_several(node, "std::vector<DTensor>",
                 fmt::format("gradients({}, {{{}}}{})", loss, joined(arguments(inputs)), rest),
                 ".at({})");
  }

  // Hooks: functions whose statements come after the backward that called them.

  HookBody body_of(const GraphNode& node) {
    if (in_body()) refuse("it is registered inside of a hook");
    const HookBody body(graph(), node.hook);
    if (!body.why_not.empty()) refuse(body.why_not);
    std::vector<std::string> names;
    for (const std::int32_t value : body.shared) {
      if (known_.contains(value) || !early_.insert(value).second) continue;
      names.push_back(name({value}));
    }
    if (!names.empty()) statement(fmt::format("DTensor {};", joined(names)));
    return body;
  }

  // The lines of the function: its argument, its statements, its result in place of that.
  std::string function(const GraphNode& node, const HookBody& body, std::string_view given) {
    if (body.begin == body.end) return "";
    std::string code;
    const GraphNode& call = graph().nodes[body.begin];
    std::set<std::int32_t> taken;
    for (std::size_t i = 0; i < call.results.size(); ++i) {
      const std::int32_t id = call.results[i].value.id;
      if (id < 0 || !taken.insert(id).second) continue;
      known_.insert(id);
      code += fmt::format("    {}{} = {};\n", early_.contains(id) ? "" : "const DTensor ",
                          name({id}), fmt::format(fmt::runtime(given), i));
    }
    code += this->body(body.begin + 1, body.end);
    return indented_code(code, around_of(node) == Around{} ? "  " : "    ");
  }

  std::vector<std::string> given_back(const HookBody& body) {
    if (body.begin == body.end) return {};
    return tensors_of(graph().nodes[body.end].args);
  }

  // Its results are there already, and get their places on the tape.
  void write_function(const GraphNode& node) override {
    const HookBody body = body_of(node);
    const std::string in = indent(around_of(node) != Around{});
    const auto tensors = [&](std::size_t position) {
      return joined(tensors_of(list_of(node, position)));
    };
    std::string settings;
    const auto set = [&](std::string_view call, const std::string& with) {
      settings += fmt::format("{}  context.{}({});\n", in, call, with);
    };
    if (!list_of(node, 2).empty()) set("save_for_backward", "{" + tensors(2) + "}");
    if (!list_of(node, 3).empty()) set("mark_non_differentiable", "{" + tensors(3) + "}");
    if (!node.zeros) set("set_materialize_grads", "false");
    const std::string given = tensors(0), results = tensors(1);
    const std::string lines = function(node, body, "gradients.at({})");
    const bool reads = lines.find("= gradients.at(") != std::string::npos;
    give_several(
        node, "std::vector<DTensor>",
        fmt::format("apply_function(\n{0}    {{.name = {1},\n"
                    "{0}     .forward = [&](FunctionContext&{2}) -> std::vector<DTensor> {{\n"
                    "{3}{0}  return {{{4}}};\n{0}}},\n"
                    "{0}     .backward = [&](FunctionContext&, const std::vector<DTensor>&{5}) "
                    "-> std::vector<DTensor> {{\n{6}{0}  return {{{7}}};\n{0}}}{8}}},\n"
                    "{0}    {{{9}}})",
                    in, cpp_text(node.name), settings.empty() ? "" : " context", settings, results,
                    reads ? " gradients" : "", lines, joined(given_back(body)),
                    node.once ? ",\n" + in + "     .once_differentiable = true" : "", given),
        ".at({})");
  }

  std::vector<std::string> tensors_of(const std::vector<GraphArgument>& list) {
    std::vector<std::string> texts;
    for (const GraphArgument& one : list) {
      texts.push_back(is_none(one) ? "DTensor()" : argument(one));
    }
    return texts;
  }

  std::string handle(std::int32_t hook) const { return fmt::format("{}{}", prefix("h"), hook); }

  void write_hook(const GraphNode& node) override {
    const HookBody body = body_of(node);
    const std::string lines = function(node, body, "gradient");
    const std::vector<std::string> back = given_back(body);
    const bool in_block = around_of(node) != Around{};
    const std::string in = indent(in_block);
    const bool removed = std::ranges::any_of(graph().nodes, [&](const GraphNode& other) {
      return other.kind == NodeKind::kRemoveHook && other.hook == node.hook;
    });
    std::string left;
    if (removed) left = (in_block ? "" : "HookHandle ") + handle(node.hook) + " = ";
    if (removed && in_block) statement(fmt::format("HookHandle {};", handle(node.hook)));
    statement(node,
              fmt::format("{}register_hook({}, [&](const DTensor&{}) -> DTensor {{\n{}{}  return "
                          "{};\n{}}});",
                          left, argument(node.args.at(0)),
                          lines.find("= gradient;") == std::string::npos ? "" : " gradient", lines,
                          in, back.empty() ? "DTensor()" : back[0], in));
  }

  void write_hooks(const GraphNode& node) override {
    const HookBody body = body_of(node);
    const std::string lines = function(node, body, "gradients.at({})");
    const std::string in = indent(around_of(node) != Around{});
    const bool reads = lines.find("= gradients.at(") != std::string::npos;
    give_several(node, "std::vector<DTensor>",
                 fmt::format("hook_gradients({{{}}}, MissingGradients::{}, "
                             "[&](const std::vector<DTensor>&{}) -> std::vector<DTensor> {{\n"
                             "{}{}  return {{{}}};\n{}}})",
                             joined(arguments(node.args)), node.zeros ? "kZeros" : "kUndefined",
                             reads ? " gradients" : "", lines, in, joined(given_back(body)), in),
                 ".at({})");
  }

  void write_remove_hook(const GraphNode& node) override {
    statement(node, handle(node.hook) + ".remove();");
  }

  std::set<std::int32_t> known_;  ///< values that have a variable
  std::set<std::int32_t> early_;  ///< declared before a hook that shares them
  std::set<std::int32_t> made_;   ///< likewise meshes
  std::int32_t flattened_ = -1;   ///< the mesh whose dims become one right now
  std::vector<std::string> made_in_block_;
  bool uses_rank_ = false, uses_ops_ = false, uses_mesh_ = false;
};

}  // namespace

std::string graph_program(const std::vector<ProgramGraph>& graphs, const OpRegistry& registry) {
  return ProgramWriter(graphs, registry).text();
}

}  // namespace shardlab
