// Every line is parsed field by field; a field that is not of its kind, that is unknown or that
// contradicts the lines before it is named with its line. A file is trusted only as far as it is
// long: counts follow from lines, never the other way round.
#include "trace/graph_objects.h"

#include <algorithm>

#include "base/fix.h"
#include "tensor/tensor.h"
#include "trace/graph_fields.h"

namespace shardlab {

namespace {

using Json = GraphObject;

constexpr int kDeepest = 8;  // lists in lists of arguments

// The facts that lines are checked against: the content of the lines before them.
struct Known {
  std::int64_t values = 0;
  std::int64_t given = 0;  ///< results so far
  std::int64_t numbers = 0;
  std::int64_t given_numbers = 0;
  std::int64_t hooks = 0;  ///< registered so far
  std::int64_t works = 0;  ///< asynchronous collectives so far
  std::size_t meshes = 0;
  std::size_t generators = 0;
  std::size_t ranks = 1;
};

std::int32_t value_of(const Json& json, const GraphFields& fields, const char* key,
                      const Known& known) {
  return static_cast<std::int32_t>(fields.integer_of(json, key, 0, known.values - 1));
}

GraphArgument argument_of(const Json& json, const GraphFields& fields, const Known& known,
                          int depth) {
  constexpr const char* kKey = "args";
  if (depth > kDeepest) fields.refuse(kKey, "has lists in lists in lists");
  const auto list_of = [&](const Json& items) {
    std::vector<GraphArgument> list;
    for (const Json& item : items) list.push_back(argument_of(item, fields, known, depth + 1));
    return GraphArgument{std::move(list)};
  };
  if (json.is_null()) return {};
  if (json.is_string()) return {json.get<std::string>()};
  if (json.is_array()) {
    const bool sizes =
        std::ranges::all_of(json, [](const Json& j) { return j.is_number_integer(); });
    if (!sizes) return list_of(json);
    Dims dims;
    for (const Json& item : json) {
      dims.push_back(fields.integer_of(item, kKey, INT64_MIN, INT64_MAX));
    }
    return {std::move(dims)};
  }
  if (json.is_object() && json.size() == 1) {
    const std::string key = json.begin().key();
    const Json& inside = json.begin().value();
    if (key == "v") return {ValueRef{value_of(inside, fields, kKey, known)}};
    if (key == "list" && inside.is_array()) return list_of(inside);
    if (key == "n") {
      const std::int64_t index = fields.integer_of(inside, kKey, 0, known.given_numbers - 1);
      return {NumberRef{static_cast<std::int32_t>(index)}};
    }
    if (key == "generator") {
      const auto most = static_cast<std::int64_t>(known.generators) - 1;
      return {GeneratorRef{static_cast<std::int32_t>(fields.integer_of(inside, kKey, 0, most))}};
    }
    if (key == "dtype" && inside.is_string()) {
      const auto dtype = parse_dtype(inside.get<std::string>());
      if (!dtype) fields.refuse(kKey, "names an unknown dtype");
      return {*dtype};
    }
  }
  return {fields.scalar_of(json, kKey)};
}

// One place for each mesh dim that cuts, 0, 1, ... in each tensor dim; -1 for the others (M-11).
bool is_order_of(const Placements& placements, const ShardOrder& order) {
  if (order.size() != placements.size()) return false;
  for (std::size_t mesh_dim = 0; mesh_dim < placements.size(); ++mesh_dim) {
    if (!placements[mesh_dim].is_shard()) {
      if (order[mesh_dim] != -1) return false;
      continue;
    }
    const auto sequence = cutting_order(placements, order, placements[mesh_dim].dim);
    for (std::size_t place = 0; place < sequence.size(); ++place) {
      if (order[sequence[place]] != static_cast<std::int32_t>(place)) return false;
    }
  }
  return true;
}

ValueType type_of(GraphFields& fields, const Known& known) {
  ValueType type;
  type.dtype = fields.dtype("dtype");
  type.shape = fields.sizes("shape");
  type.stride = contiguous_strides(type.shape);
  if (fields.has("stride")) type.stride = fields.sizes("stride");
  if (type.stride.size() != type.shape.size()) fields.refuse("stride", "is not one per dim");
  if (fields.flag("local", false)) return type;
  type.mesh = static_cast<std::int32_t>(
      fields.integer_or("mesh", 0, 0, static_cast<std::int64_t>(known.meshes) - 1));
  for (const std::string& text : fields.texts("placements")) {
    const auto placement = parse_placement(text);
    if (!placement || placement->dim < 0) {
      fields.refuse("placements", fmt::format("'{}' is not a placement", text));
    }
    type.placements.push_back(*placement);
  }
  if (type.placements.size() > 64) fields.refuse("placements", "are more than 64");
  type.order = default_order(type.placements);
  if (!fields.has("order")) return type;
  type.order.clear();
  for (const std::int64_t place : fields.integers("order", -1, 64)) {
    type.order.push_back(static_cast<std::int32_t>(place));
  }
  if (!is_order_of(type.placements, type.order)) {
    fields.refuse("order", "does not say which mesh dim cuts first, second, ...");
  }
  return type;
}

GraphMesh mesh_of(GraphFields fields, std::size_t number) {
  GraphMesh mesh;
  mesh.shape = fields.sizes("shape");
  mesh.names = fields.texts("names");
  if (!mesh.names.empty() && mesh.names.size() != mesh.shape.size())
    fields.refuse("names", "is not one per dim");
  mesh.ranks = fields.integers("ranks", 0, INT64_MAX);
  if (fields.has("base")) {
    mesh.base =
        static_cast<std::int32_t>(fields.integer("base", 0, static_cast<std::int64_t>(number) - 1));
    mesh.part = fields.texts("part");
    mesh.flattened = fields.flag("flattened", false);
  }
  fields.end();
  return mesh;
}

GraphPolicies policies_of(GraphFields fields) {
  GraphPolicies policies;
  policies.planner = fields.text_or("planner", "");
  policies.implicit = fields.text_or("implicit", "");
  policies.mixed = fields.text_or("mixed", "");
  for (const Json& json : fields.list("rules")) {
    GraphFields rule = fields.inside(json, "rules");
    policies.rules.push_back({rule.text("op"), rule.text("rule"), rule.text_or("local", "")});
    rule.end();
  }
  for (const Json& json : fields.list("links")) {
    GraphFields one = fields.inside(json, "links");
    GraphPolicies::Link link{.mesh_dim = one.text("dim"), .gbps = {}, .us = {}};
    link.gbps = one.real("gbps");
    link.us = one.real("us");
    one.end();
    policies.links.push_back(std::move(link));
  }
  fields.end();
  return policies;
}

std::uint64_t digest_of_text(const Json& json, const GraphFields& fields) {
  const std::string text = json.is_string() ? json.get<std::string>() : "";
  const bool fits =
      text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!fits) fields.refuse("digests", "must be texts of 16 hex digits");
  return std::stoull(text, nullptr, 16);
}

void read_ranks(GraphFields& fields, ProgramGraph& graph) {
  constexpr std::int64_t kMostRanks = std::int64_t{1} << 24;
  graph.world = fields.integer("world", 1, kMostRanks);
  graph.ranks = fields.integers("ranks", 0, graph.world - 1);
  const bool ascending =
      std::ranges::adjacent_find(graph.ranks, std::greater_equal<>()) == graph.ranks.end();
  if (!ascending) fields.refuse("ranks", "do not ascend");
}

ProgramGraph header_of(GraphFields fields, Known& known) {
  ProgramGraph graph;
  if (fields.text("form") != "capture") fields.refuse("form", "is not 'capture'");
  graph.title = fields.text("program");
  graph.file = fields.text_or("file", "");
  read_ranks(fields, graph);
  graph.seed = fields.natural("seed");
  for (const Json& mesh : fields.list("meshes")) {
    graph.meshes.push_back(mesh_of(fields.inside(mesh, "meshes"), graph.meshes.size()));
  }
  if (graph.meshes.empty() || graph.meshes[0].base >= 0) {
    fields.refuse("meshes", "must begin with the program's own mesh");
  }
  graph.policies = policies_of(fields.inside(fields.at("policies"), "policies"));
  graph.values = static_cast<std::int32_t>(fields.integer("n_values", 0, INT32_MAX));
  for (const Json& json : fields.list("generators")) {
    GraphFields state = fields.inside(json, "generators");
    graph.generators.push_back({state.natural("seed"), state.natural("offset")});
    state.end();
  }
  graph.numbers = static_cast<std::int32_t>(fields.integer_or("n_numbers", 0, 0, INT32_MAX));
  graph.dynamic = fields.flag("dynamic", false);
  for (const Json& json : fields.list("sizes")) {
    GraphFields size = fields.inside(json, "sizes");
    graph.sizes.emplace_back(size.text("name"), size.integer("size", INT64_MIN, INT64_MAX));
    size.end();
  }
  known.numbers = graph.numbers;
  known.values = graph.values;
  known.meshes = graph.meshes.size();
  known.generators = graph.generators.size();
  for (const Json& json : fields.list("outputs")) {
    const bool none = json.is_null();
    graph.outputs.push_back({none ? -1 : value_of(json, fields, "outputs", known)});
  }
  for (const Json& json : fields.list("left")) {
    graph.left.push_back({value_of(json, fields, "left", known)});
  }
  for (const Json& json : fields.list("digests")) {
    graph.digests.push_back(digest_of_text(json, fields));
  }
  const auto ranks = static_cast<std::int64_t>(graph.ranks.size());
  const auto digests = static_cast<std::int64_t>(graph.digests.size());
  if (digests != 0 && digests != (ranks > 0 ? ranks : graph.world)) {
    fields.refuse("digests", "are not one for each rank");
  }
  fields.end();
  return graph;
}

Guard guard_of(GraphFields fields) {
  Guard guard;
  const auto kind = parse_guard_kind(fields.text("guard"));
  if (!kind) fields.refuse("guard", "is not a kind of guard");
  guard.kind = *kind;
  guard.source = fields.text("source");
  guard.expected = fields.text("expected");
  guard.line = static_cast<std::int32_t>(fields.integer_or("line", 0, 0, INT32_MAX));
  fields.end();
  return guard;
}

std::optional<ReduceOp> reduce_op(GraphFields& fields) {
  if (!fields.has("reduce")) return std::nullopt;
  const auto op = parse_reduce_op(fields.text("reduce"));
  if (!op) fields.refuse("reduce", "is not a reduction");
  return op;
}

CollectiveKind collective_kind(GraphFields& fields) {
  const std::string name = fields.text("c");
  for (std::size_t i = 0; i < kCollectiveKinds; ++i) {
    if (to_string(static_cast<CollectiveKind>(i)) == name) return static_cast<CollectiveKind>(i);
  }
  fields.refuse("c", "is not a collective");
}

GraphCollective collective_of(GraphFields fields) {
  GraphCollective collective;
  collective.kind = collective_kind(fields);
  collective.group = fields.text("group");
  collective.ranks = fields.integers("ranks", 0, INT64_MAX);
  collective.op = reduce_op(fields);
  collective.dtype = fields.dtype("dtype");
  collective.shape = fields.sizes("shape");
  collective.pass = fields.text_or("pass", "fwd") == "bwd" ? Pass::kBackward : Pass::kForward;
  collective.waits = fields.flag("waits", false);
  fields.end();
  return collective;
}

GraphMove move_of(GraphFields fields) {
  GraphMove move;
  move.argument = static_cast<int>(fields.integer("t", 0, INT32_MAX));
  move.op = fields.text("op");
  move.from = fields.text("from");
  move.to = fields.text("to");
  move.plan = fields.text("plan");
  fields.end();
  return move;
}

InputRecipe recipe_of(GraphFields fields) {
  InputRecipe recipe;
  recipe.init = fields.text("init");
  recipe.arguments = fields.scalars_of(fields.list("arguments"), "arguments");
  recipe.scale = fields.real("scale").value_or(recipe.scale);
  recipe.values = fields.scalars_of(fields.list("values"), "values");
  recipe.sizes = fields.texts("written");
  const auto dims = static_cast<std::int64_t>(recipe.sizes.size());
  recipe.dynamic = fields.integers("open", 0, dims - 1);
  fields.end();
  return recipe;
}

void read_group(GraphFields fields, GraphNode& node, const Known& known) {
  node.group.mesh = static_cast<std::int32_t>(
      fields.integer("mesh", 0, static_cast<std::int64_t>(known.meshes) - 1));
  node.group.dims = fields.integers("dims", 0, 64);
  fields.end();
}

void read_options(GraphFields& fields, GraphNode& node, const Known& known) {
  if (const Json* target = fields.find("to")) {
    GraphFields inside = fields.inside(*target, "to");
    node.target = type_of(inside, known);
    inside.end();
  }
  node.async = fields.flag("async", false);
  if (fields.has("planner")) node.planner = fields.text("planner");
  if (fields.has("forward_dtype")) node.forward_dtype = fields.dtype("forward_dtype");
  if (fields.has("backward_dtype")) node.backward_dtype = fields.dtype("backward_dtype");
  if (fields.has("source")) node.source = fields.integer("source", -1, INT64_MAX);
  node.tag = fields.integer_or("tag", 0, 0, INT32_MAX);
  if (const Json* group = fields.find("group")) {
    read_group(fields.inside(*group, "group"), node, known);
  }
  node.op = reduce_op(fields).value_or(ReduceOp::kSum);
  node.dim = fields.integer_or("dim", 0, 0, 64);
  node.split_dim = fields.integer_or("split_dim", 0, 0, 64);
  node.sent = fields.integers("sent", 0, INT64_MAX);
  node.received = fields.integers("received", 0, INT64_MAX);
  node.mesh = static_cast<std::int32_t>(
      fields.integer_or("mesh", -1, 0, static_cast<std::int64_t>(known.meshes) - 1));
  node.mesh_dims = fields.integers("mesh_dims", 0, 64);
  node.required = fields.flag("required", true);
  node.in_place = fields.flag("in_place", false);
  if (fields.flag("retain", false)) node.graph = Graph::kRetain;
  if (fields.flag("create", false)) node.graph = Graph::kCreate;
  node.of_inputs = fields.flag("of_inputs", false);
  node.requires_grad = fields.flag("requires_grad", false);
  if (const Json* recipe = fields.find("recipe")) {
    node.recipe = recipe_of(fields.inside(*recipe, "recipe"));
  }
}

void read_data(GraphFields& fields, GraphNode& node) {
  if (const Json* data = fields.find("data")) {
    node.data = {fields.scalars_of(*data, "data")};
  }
  for (const Json& data : fields.list("data_ranks")) {
    node.data.push_back(fields.scalars_of(data, "data_ranks"));
  }
}

void read_results(GraphFields& fields, GraphNode& node, Known& known) {
  for (const Json& json : fields.list("out")) {
    if (json.is_null()) {
      node.results.emplace_back();
      continue;
    }
    GraphFields inside = fields.inside(json, "out");
    GraphResult result;
    result.value.id = value_of(inside.at("v"), inside, "v", known);
    result.type = type_of(inside, known);
    inside.end();
    node.results.push_back(std::move(result));
    ++known.given;
  }
}

void read_place(GraphFields& fields, GraphNode& node) {
  if (!fields.has("at")) return;
  const auto place = fields.integers("at", 0, INT32_MAX);
  if (place.size() != 2) fields.refuse("at", "must be a line and a column");
  node.line = static_cast<std::int32_t>(place[0]);
  node.column = static_cast<std::int32_t>(place[1]);
}

// Hooks are numbered as they are registered.
void read_hook(GraphFields& fields, GraphNode& node, Known& known) {
  const bool registers = node.kind == NodeKind::kHook || node.kind == NodeKind::kHooks ||
                         node.kind == NodeKind::kFunction;
  const bool refers = node.kind == NodeKind::kRemoveHook || node.kind == NodeKind::kHookCall ||
                      node.kind == NodeKind::kHookGives;
  if (!registers && !refers) return;
  const std::int64_t least = registers ? known.hooks : 0;
  const std::int64_t most = registers ? known.hooks : known.hooks - 1;
  node.hook = static_cast<std::int32_t>(fields.integer("hook", least, most));
  if (registers) ++known.hooks;
  node.zeros = fields.flag("zeros", false);
  node.once = fields.flag("once", false);
}

// Asynchronous collectives are numbered as they begin.
void read_work(GraphFields& fields, GraphNode& node, Known& known) {
  const bool begins = node.kind == NodeKind::kCollective && node.async;
  if (!begins && node.kind != NodeKind::kWait) return;
  const std::int64_t least = begins ? known.works : 0;
  const std::int64_t most = begins ? known.works : known.works - 1;
  node.work = static_cast<std::int32_t>(fields.integer("work", least, most));
  if (begins) ++known.works;
}

GraphNode node_of(GraphFields fields, NodeKind kind, Known& known) {
  GraphNode node;
  node.kind = kind;
  node.name = fields.text_or("name", "");
  for (const Json& json : fields.list("args")) {
    node.args.push_back(argument_of(json, fields, known, 0));
  }
  read_options(fields, node, known);
  read_data(fields, node);
  read_results(fields, node, known);
  if (fields.has("generator")) {
    const auto most = static_cast<std::int64_t>(known.generators) - 1;
    const std::int64_t index = fields.integer("generator", 0, most);
    node.generator = GeneratorRef{static_cast<std::int32_t>(index)};
  }
  if (kind == NodeKind::kSize || kind == NodeKind::kNumber) {
    const std::int64_t next = known.given_numbers;
    if (next >= known.numbers) fields.refuse("number", "is more than 'n_numbers' allows");
    node.number = static_cast<std::int32_t>(fields.integer("number", next, next));
    ++known.given_numbers;
  }
  read_hook(fields, node, known);
  read_work(fields, node, known);
  if (kind == NodeKind::kSeed) node.seed = fields.natural("seed");
  node.taped = fields.flag("taped", true);
  node.replicates = fields.flag("replicates", false);
  node.target_view = fields.flag("target_view", false);
  read_place(fields, node);
  for (const Json& json : fields.list("redist")) {
    node.moves.push_back(move_of(fields.inside(json, "redist")));
  }
  for (const Json& json : fields.list("comm")) {
    node.collectives.push_back(collective_of(fields.inside(json, "comm")));
  }
  if (const Json* json = fields.find("error")) {
    GraphFields error = fields.inside(*json, "error");
    node.error = NodeError{error.text("class"), error.text("message")};
    error.end();
  }
  fields.end();
  return node;
}

class Reader {
 public:
  void take(const Json& json, std::size_t line) {
    last_ = line;
    GraphFields fields(json, line, "");
    const std::string kind = fields.text("k");
    if (kind == "program") {
      if (!graphs_.empty()) end_graph(line);
      known_ = {};
      graphs_.push_back(header_of(std::move(fields), known_));
      return;
    }
    if (graphs_.empty()) fields.refuse("k", "must be 'program' on the first line");
    ProgramGraph& graph = graphs_.back();
    if (kind == "guard") {
      graph.guards.push_back(guard_of(std::move(fields)));
    } else if (const auto node = parse_node_kind(kind)) {
      graph.nodes.push_back(node_of(std::move(fields), *node, known_));
    } else {
      fields.refuse("k", fmt::format("is '{}', which is not a kind of node", kind));
    }
  }

  std::vector<ProgramGraph> end() {
    if (graphs_.empty()) {
      fail(Fix{kCaptureAgain}, "the file is empty: a graph begins with its program");
    }
    end_graph(last_ + 1);
    return std::move(graphs_);
  }

 private:
  // A count without lines for it would take memory for nothing.
  void end_graph(std::size_t line) const {
    if (known_.given_numbers < known_.numbers) {
      fail(
          Fix{kCaptureAgain},
          "line {} of the graph: 'n_numbers' is {}, and the nodes before it give {}: it is cut off",
          line, known_.numbers, known_.given_numbers);
    }
    if (known_.given >= known_.values) return;
    fail(Fix{kCaptureAgain},
         "line {} of the graph: 'n_values' is {}, and the nodes before it give {}: it is cut off",
         line, known_.values, known_.given);
  }

  std::vector<ProgramGraph> graphs_;
  Known known_;
  std::size_t last_ = 0;
};

}  // namespace

std::vector<ProgramGraph> read_graph_objects(const NextGraphLine& next) {
  Reader reader;
  while (const auto line = next()) reader.take(line->object, line->number);
  return reader.end();
}

}  // namespace shardlab
