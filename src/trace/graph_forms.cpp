// One function for each kind of object says its fields, in the order in which they are written;
// fields that hold their default are not. The same functions read: a field that is not of its kind,
// that is unknown or that contradicts the lines before it is named with its line. A file is trusted
// only as far as it is long: counts follow from lines, never the other way round.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "mesh/mesh_layout.h"
#include "tensor/tensor.h"
#include "trace/graph_fields.h"
#include "trace/graph_objects.h"

namespace shardlab {

namespace {

constexpr int kDeepest = 8;  // lists in lists of arguments

template <typename Fields>
constexpr bool kReads = std::is_same_v<std::remove_cvref_t<Fields>, GraphFields>;

// The facts that lines are checked against: the content of the lines before them.
struct Known {
  std::int64_t values = 0;
  std::int64_t given = 0;  ///< results so far
  std::int64_t numbers = 0;
  std::int64_t given_numbers = 0;
  std::int64_t hooks = 0;  ///< registered so far
  std::int64_t works = 0;  ///< asynchronous collectives so far
  std::int64_t meshes = 0;
  std::int64_t generators = 0;
};

GraphObject object_by(const auto& value, const auto& form) {
  GraphFieldsOut out;
  form(out, value);
  return std::move(out).object();
}

template <typename Items, typename Form>
void objects(auto& f, const char* key, Items& all, const Form& form,
             Written written = Written::kIfOther) {
  f.items(
      key, all,
      [&](auto& in, const GraphObject& json) {
        typename Items::value_type value{};
        in.read(json, key, value, form);
        return value;
      },
      [&](const auto& value) { return object_by(value, form); }, written);
}

// Arguments.

GraphObject json_of(const GraphArgument& argument);

// All ints, or nothing at all: the plain form means sizes. A list of arguments that could be taken
// for one is marked as a list.
bool looks_like_sizes(const std::vector<GraphArgument>& items) {
  return std::ranges::all_of(items, [](const GraphArgument& item) {
    const auto* scalar = std::get_if<Scalar>(&item.value);
    return scalar != nullptr && scalar->category() == Category::kInteger;
  });
}

GraphObject json_of(const GraphArgument& argument) {
  struct Visitor {
    GraphObject operator()(std::monostate) const { return nullptr; }
    GraphObject operator()(const Scalar& value) const { return shardlab::json_of(value); }
    GraphObject operator()(ValueRef value) const { return {{"v", value.id}}; }
    GraphObject operator()(const Dims& value) const { return shardlab::json_of(value); }
    GraphObject operator()(DType value) const { return {{"dtype", to_string(value)}}; }
    GraphObject operator()(const std::string& value) const { return value; }
    GraphObject operator()(GeneratorRef value) const { return {{"generator", value.index}}; }
    GraphObject operator()(NumberRef value) const { return {{"n", value.index}}; }
    GraphObject operator()(const std::vector<GraphArgument>& items) const {
      GraphObject list = GraphObject::array();
      for (const GraphArgument& item : items) list.push_back(json_of(item));
      if (looks_like_sizes(items)) return {{"list", list}};
      return list;
    }
  };
  return std::visit(Visitor{}, argument.value);
}

GraphArgument argument_of(const GraphObject& json, const GraphFields& fields, const Known& known,
                          int depth) {
  constexpr const char* kKey = "args";
  if (depth > kDeepest) fields.refuse(kKey, "has lists in lists in lists");
  const auto list_of = [&](const GraphObject& items) {
    std::vector<GraphArgument> list;
    for (const GraphObject& item : items)
      list.push_back(argument_of(item, fields, known, depth + 1));
    return GraphArgument{std::move(list)};
  };
  if (json.is_null()) return {};
  if (json.is_string()) return {json.get<std::string>()};
  if (json.is_array()) {
    const bool sizes =
        std::ranges::all_of(json, [](const GraphObject& j) { return j.is_number_integer(); });
    if (!sizes) return list_of(json);
    Dims dims;
    for (const GraphObject& item : json) {
      dims.push_back(fields.integer_of(item, kKey, INT64_MIN, INT64_MAX));
    }
    return {std::move(dims)};
  }
  if (json.is_object() && json.size() == 1) {
    const std::string key = json.begin().key();
    const GraphObject& inside = json.begin().value();
    const auto index_below = [&](std::int64_t count) {
      return static_cast<std::int32_t>(fields.integer_of(inside, kKey, 0, count - 1));
    };
    if (key == "v") return {ValueRef{index_below(known.values)}};
    if (key == "list" && inside.is_array()) return list_of(inside);
    if (key == "n") return {NumberRef{index_below(known.given_numbers)}};
    if (key == "generator") return {GeneratorRef{index_below(known.generators)}};
    if (key == "dtype" && inside.is_string()) {
      const auto dtype = parse_dtype(inside.get<std::string>());
      if (!dtype) fields.refuse(kKey, "names an unknown dtype");
      return {*dtype};
    }
  }
  return {fields.scalar_of(json, kKey)};
}

// Types.

void dtype_form(auto& f, const char* key, auto& dtype) {
  f.word(key, dtype, parse_dtype, "is not a dtype");
}
void optional_dtype(auto& f, const char* key, auto& dtype) {
  f.optional(key, dtype, [&](auto& in, auto& value) { dtype_form(in, key, value); });
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

Placement placement_in(const GraphFields& fields, const GraphObject& json) {
  if (!json.is_string()) fields.refuse("placements", "must be a list of texts");
  const std::string text = json.get<std::string>();
  const auto placement = parse_placement(text);
  if (placement && placement->dim >= 0) return *placement;
  fields.refuse("placements", fmt::format("'{}' is not a placement", text));
}

void order_form(GraphFields& f, ValueType& type) {
  type.order = default_order(type.placements);
  if (!f.has("order")) return;
  type.order.clear();
  for (const std::int64_t place : f.integers("order", -1, 64)) {
    type.order.push_back(static_cast<std::int32_t>(place));
  }
  f.check(is_order_of(type.placements, type.order), "order",
          "does not say which mesh dim cuts first, second, ...");
}
void order_form(GraphFieldsOut& f, const ValueType& type) {
  const bool usual = type.order.empty() || type.order == default_order(type.placements);
  if (!usual) f.put("order", shardlab::json_of(type.order));
}

void stride_form(GraphFields& f, ValueType& type) {
  type.stride = f.has("stride") ? f.sizes("stride") : contiguous_strides(type.shape);
  f.check(type.stride.size() == type.shape.size(), "stride", "is not one per dim");
}
void stride_form(GraphFieldsOut& f, const ValueType& type) {
  if (type.stride != contiguous_strides(type.shape)) f.sizes("stride", type.stride);
}

void type_form(auto& f, auto& type, const Known& known) {
  f.sizes("shape", type.shape);
  dtype_form(f, "dtype", type.dtype);
  bool local = type.mesh < 0;
  f.flag("local", local, false);
  if (!local) {
    f.items(
        "placements", type.placements,
        [](auto& in, const GraphObject& json) { return placement_in(in, json); },
        [](const Placement& placement) { return to_string(placement); }, Written::kAlways);
    f.check(type.placements.size() <= 64, "placements", "are more than 64");
    order_form(f, type);
    f.integer("mesh", type.mesh, 0, 0, known.meshes - 1);
  }
  stride_form(f, type);
}

// The program.

void mesh_form(auto& f, auto& mesh, std::size_t number) {
  f.sizes("shape", mesh.shape);
  f.texts("names", mesh.names, Written::kAlways);
  f.check(mesh.names.empty() || mesh.names.size() == mesh.shape.size(), "names",
          "is not one per dim");
  f.integers("ranks", mesh.ranks, 0, INT64_MAX);
  f.integer("base", mesh.base, -1, 0, static_cast<std::int64_t>(number) - 1);
  if (mesh.base < 0) return;
  f.texts("part", mesh.part, Written::kAlways);
  f.flag("flattened", mesh.flattened, false);
}

constexpr auto kPoliciesForm = [](auto& f, auto& policies) {
  f.text_or_empty("planner", policies.planner);
  f.text_or_empty("implicit", policies.implicit);
  f.text_or_empty("mixed", policies.mixed);
  objects(f, "rules", policies.rules, [](auto& in, auto& rule) {
    in.text("op", rule.op);
    in.text("rule", rule.rule);
    in.text_or_empty("local", rule.local);
  });
  objects(f, "links", policies.links, [](auto& in, auto& link) {
    in.text("dim", link.mesh_dim);
    for (const auto& [key, figure] : {std::pair("gbps", &link.gbps), std::pair("us", &link.us)}) {
      in.optional(key, *figure, [key = key](auto& of, auto& value) {
        constexpr double kNever = std::numeric_limits<double>::quiet_NaN();
        of.real(key, value, kNever);
      });
    }
  });
};

std::string hex(std::uint64_t number) { return fmt::format("{:016x}", number); }

std::uint64_t digest_in(const GraphFields& fields, const GraphObject& json) {
  const std::string text = json.is_string() ? json.get<std::string>() : "";
  const bool fits =
      text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!fits) fields.refuse("digests", "must be texts of 16 hex digits");
  return std::stoull(text, nullptr, 16);
}

void refs_form(auto& f, const char* key, auto& refs, std::int64_t values, Written written) {
  f.items(
      key, refs,
      [&](auto& in, const GraphObject& json) {
        const bool none = json.is_null() && written == Written::kIfOther;
        const std::int64_t id = none ? -1 : in.integer_of(json, key, 0, values - 1);
        return ValueRef{static_cast<std::int32_t>(id)};
      },
      [](ValueRef value) { return value.id >= 0 ? GraphObject(value.id) : GraphObject(nullptr); },
      written);
}

void header_form(auto& f, auto& graph, Known& known) {
  constexpr std::int64_t kMostRanks = std::int64_t{1} << 24;
  std::string form = "capture";
  f.text("form", form);
  f.check(form == "capture", "form", "is not 'capture'");
  f.text("program", graph.title);
  f.text_or_empty("file", graph.file);
  f.integer("world", graph.world, 1, kMostRanks);
  f.integers("ranks", graph.ranks, 0, graph.world - 1);
  f.check(std::ranges::adjacent_find(graph.ranks, std::greater_equal<>()) == graph.ranks.end(),
          "ranks", "do not ascend");
  f.natural("seed", graph.seed);
  objects(
      f, "meshes", graph.meshes,
      [&](auto& in, auto& mesh) { mesh_form(in, mesh, graph.meshes.size()); }, Written::kAlways);
  f.check(!graph.meshes.empty() && graph.meshes[0].base < 0, "meshes",
          "must begin with the program's own mesh");
  f.object("policies", graph.policies, kPoliciesForm);
  f.integer("n_values", graph.values, 0, INT32_MAX);
  f.integer("n_numbers", graph.numbers, 0, 0, INT32_MAX);
  f.flag("dynamic", graph.dynamic, false);
  objects(f, "sizes", graph.sizes, [](auto& in, auto& size) {
    in.text("name", size.first);
    in.integer("size", size.second, INT64_MIN, INT64_MAX);
  });
  objects(f, "generators", graph.generators, [](auto& in, auto& state) {
    in.natural("seed", state.seed);
    in.natural("offset", state.offset);
  });
  known = {.values = graph.values,
           .numbers = graph.numbers,
           .meshes = std::ssize(graph.meshes),
           .generators = std::ssize(graph.generators)};
  refs_form(f, "outputs", graph.outputs, known.values, Written::kIfOther);
  refs_form(f, "left", graph.left, known.values, Written::kAlways);
  f.items(
      "digests", graph.digests,
      [](auto& in, const GraphObject& json) { return digest_in(in, json); }, hex);
  const std::int64_t ranks = graph.ranks.empty() ? graph.world : std::ssize(graph.ranks);
  f.check(graph.digests.empty() || std::ssize(graph.digests) == ranks, "digests",
          "are not one for each rank");
}

void guard_form(auto& f, auto& guard) {
  f.word("guard", guard.kind, parse_guard_kind, "is not a kind of guard");
  f.text("source", guard.source);
  f.text("expected", guard.expected);
  f.integer("line", guard.line, 0, 0, INT32_MAX);
}

// Nodes.

std::optional<CollectiveKind> collective_of(std::string_view name) {
  for (std::size_t i = 0; i < kCollectiveKinds; ++i) {
    if (to_string(static_cast<CollectiveKind>(i)) == name) return static_cast<CollectiveKind>(i);
  }
  return std::nullopt;
}

void reduction_form(auto& f, auto& op) {
  f.word("reduce", op, parse_reduce_op, "is not a reduction");
}

constexpr auto kCollectiveForm = [](auto& f, auto& collective) {
  f.word("c", collective.kind, collective_of, "is not a collective");
  f.text("group", collective.group);
  f.integers("ranks", collective.ranks, 0, INT64_MAX);
  f.optional("reduce", collective.op, [](auto& in, auto& op) { reduction_form(in, op); });
  dtype_form(f, "dtype", collective.dtype);
  f.sizes("shape", collective.shape);
  std::string pass = collective.pass == Pass::kBackward ? "bwd" : "";
  f.text_or_empty("pass", pass);
  if constexpr (kReads<decltype(f)>) {
    collective.pass = pass == "bwd" ? Pass::kBackward : Pass::kForward;
  }
  f.flag("waits", collective.waits, false);
};

constexpr auto kMoveForm = [](auto& f, auto& move) {
  f.integer("t", move.argument, 0, INT32_MAX);
  f.text("op", move.op);
  f.text("from", move.from);
  f.text("to", move.to);
  f.text("plan", move.plan);
};

constexpr auto kRecipeForm = [](auto& f, auto& recipe) {
  f.text("init", recipe.init);
  f.scalars("arguments", recipe.arguments);
  f.real("scale", recipe.scale, 1);
  f.scalars("values", recipe.values);
  f.texts("written", recipe.sizes);
  f.integers("open", recipe.dynamic, 0, std::ssize(recipe.sizes) - 1);
};

// An object that a node always has: read if it is there, written if `is_set`.
void object_if(auto& f, const char* key, auto& value, bool is_set, const auto& form) {
  if constexpr (kReads<decltype(f)>) {
    if (f.has(key)) f.object(key, value, form);
  } else if (is_set) {
    f.object(key, value, form);
  }
}

void collective_options(auto& f, auto& node, const Known& known) {
  object_if(f, "group", node.group, node.group.mesh >= 0, [&](auto& in, auto& group) {
    in.integer("mesh", group.mesh, 0, known.meshes - 1);
    in.integers("dims", group.dims, 0, 64);
  });
  if constexpr (kReads<decltype(f)>) {
    if (f.has("reduce")) reduction_form(f, node.op);
  } else {
    reduction_form(f, node.op);
  }
  f.integer("dim", node.dim, 0, 0, 64, Written::kAlways);
  f.integer("split_dim", node.split_dim, 0, 0, 64, Written::kAlways);
  f.integers("sent", node.sent, 0, INT64_MAX);
  f.integers("received", node.received, 0, INT64_MAX);
}

// The next of those that are numbered as they begin, or one of those that have.
void counted(auto& f, const char* key, auto& number, bool begins, std::int64_t& count) {
  if constexpr (kReads<decltype(f)>) {
    f.integer(key, number, begins ? count : 0, begins ? count : count - 1);
    if (begins) ++count;
  } else {
    f.integer(key, number, -1, 0, 0);
  }
}

void hook_form(auto& f, auto& node, Known& known) {
  const bool registers = node.kind == NodeKind::kHook || node.kind == NodeKind::kHooks ||
                         node.kind == NodeKind::kFunction;
  const bool refers = node.kind == NodeKind::kRemoveHook || node.kind == NodeKind::kHookCall ||
                      node.kind == NodeKind::kHookGives;
  if (!registers && !refers) return;
  counted(f, "hook", node.hook, registers, known.hooks);
  f.flag("zeros", node.zeros, false);
  f.flag("once", node.once, false);
}

void options_form(auto& f, auto& node, Known& known) {
  f.optional("to", node.target, [&](auto& in, auto& type) {
    const auto form = [&](auto& of, auto& value) { type_form(of, value, known); };
    in.object("to", type, form);
  });
  f.flag("async", node.async, false);
  f.optional("planner", node.planner, [](auto& in, auto& name) { in.text("planner", name); });
  optional_dtype(f, "forward_dtype", node.forward_dtype);
  optional_dtype(f, "backward_dtype", node.backward_dtype);
  f.optional("source", node.source,
             [](auto& in, auto& source) { in.integer("source", source, -1, INT64_MAX); });
  f.integer("tag", node.tag, 0, 0, INT32_MAX);
  if (kReads<decltype(f)> || node.kind == NodeKind::kCollective) collective_options(f, node, known);
  f.integer("mesh", node.mesh, -1, 0, known.meshes - 1);
  f.integers("mesh_dims", node.mesh_dims, 0, 64);
  f.flag("required", node.required, true);
  if (node.kind == NodeKind::kSize || node.kind == NodeKind::kNumber) {
    f.check(known.given_numbers < known.numbers, "number", "is more than 'n_numbers' allows");
    counted(f, "number", node.number, true, known.given_numbers);
  }
  hook_form(f, node, known);
  f.flag("in_place", node.in_place, false);
  const bool begins = node.kind == NodeKind::kCollective && node.async;
  if (begins || node.kind == NodeKind::kWait) counted(f, "work", node.work, begins, known.works);
  bool retain = node.graph == Graph::kRetain, create = node.graph == Graph::kCreate;
  f.flag("retain", retain, false);
  f.flag("create", create, false);
  if constexpr (kReads<decltype(f)>) {
    node.graph = create ? Graph::kCreate : retain ? Graph::kRetain : Graph::kFree;
  }
  f.flag("of_inputs", node.of_inputs, false);
  f.flag("requires_grad", node.requires_grad, false);
  object_if(f, "recipe", node.recipe, !node.recipe.init.empty(), kRecipeForm);
}

// Elements, once for all ranks or by rank.
void data_form(GraphFields& f, GraphNode& node) {
  if (const GraphObject* data = f.find("data")) node.data = {f.scalars_of(*data, "data")};
  for (const GraphObject& data : f.list("data_ranks")) {
    node.data.push_back(f.scalars_of(data, "data_ranks"));
  }
}
void data_form(GraphFieldsOut& f, const GraphNode& node) {
  if (node.data.size() == 1) f.put("data", shardlab::json_of(node.data[0]));
  if (node.data.size() < 2) return;
  GraphObject ranks = GraphObject::array();
  for (const std::vector<Scalar>& data : node.data) ranks.push_back(shardlab::json_of(data));
  f.put("data_ranks", std::move(ranks));
}

// A result that is not a tensor is null.
void results_form(auto& f, auto& node, Known& known) {
  const auto form = [&](auto& in, auto& result) {
    in.integer("v", result.value.id, 0, known.values - 1);
    type_form(in, result.type, known);
  };
  f.items(
      "out", node.results,
      [&](auto& in, const GraphObject& json) {
        GraphResult result;
        if (json.is_null()) return result;
        in.read(json, "out", result, form);
        ++known.given;
        return result;
      },
      [&](const GraphResult& result) {
        return result.value.id < 0 ? GraphObject(nullptr) : object_by(result, form);
      });
}

void place_form(GraphFields& f, GraphNode& node) {
  if (!f.has("at")) return;
  const auto place = f.integers("at", 0, INT32_MAX);
  if (place.size() != 2) f.refuse("at", "must be a line and a column");
  node.line = static_cast<std::int32_t>(place[0]);
  node.column = static_cast<std::int32_t>(place[1]);
}
void place_form(GraphFieldsOut& f, const GraphNode& node) {
  if (node.line > 0) f.put("at", {node.line, node.column});
}

void node_form(auto& f, auto& node, Known& known) {
  f.text_or_empty("name", node.name);
  f.items(
      "args", node.args,
      [&](auto& in, const GraphObject& json) { return argument_of(json, in, known, 0); },
      [](const GraphArgument& argument) { return json_of(argument); });
  options_form(f, node, known);
  data_form(f, node);
  results_form(f, node, known);
  f.optional("generator", node.generator, [&](auto& in, auto& generator) {
    in.integer("generator", generator.index, 0, known.generators - 1);
  });
  if (node.kind == NodeKind::kSeed) f.natural("seed", node.seed);
  f.flag("taped", node.taped, true);
  f.flag("replicates", node.replicates, false);
  f.flag("target_view", node.target_view, false);
  place_form(f, node);
  objects(f, "redist", node.moves, kMoveForm);
  objects(f, "comm", node.collectives, kCollectiveForm);
  f.optional("error", node.error, [](auto& in, auto& error) {
    in.object("error", error, [](auto& of, auto& value) {
      of.text("class", value.kind);
      of.text("message", value.message);
    });
  });
}

GraphObject line_of(std::string_view kind, const auto& form) {
  GraphFieldsOut out;
  out.put("k", kind);
  form(out);
  return std::move(out).object();
}

class Reader {
 public:
  void take(const GraphObject& json, std::size_t line) {
    last_ = line;
    GraphFields fields(json, line, "");
    const std::string kind = fields.text("k");
    if (kind == "program") {
      if (!graphs_.empty()) end_graph(line);
      header_form(fields, graphs_.emplace_back(), known_);
      return fields.end();
    }
    if (graphs_.empty()) fields.refuse("k", "must be 'program' on the first line");
    ProgramGraph& graph = graphs_.back();
    if (kind == "guard") {
      guard_form(fields, graph.guards.emplace_back());
    } else if (const auto node = parse_node_kind(kind)) {
      graph.nodes.emplace_back().kind = *node;
      node_form(fields, graph.nodes.back(), known_);
    } else {
      fields.refuse("k", fmt::format("is '{}', which is not a kind of node", kind));
    }
    fields.end();
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
    const auto check = [&](std::string_view key, std::int64_t count, std::int64_t given) {
      if (given >= count) return;
      fail(Fix{kCaptureAgain},
           "line {} of the graph: '{}' is {}, and the nodes before it give {}: it is cut off", line,
           key, count, given);
    };
    check("n_numbers", known_.numbers, known_.given_numbers);
    check("n_values", known_.values, known_.given);
  }

  std::vector<ProgramGraph> graphs_;
  Known known_;
  std::size_t last_ = 0;
};

}  // namespace

GraphObject object_of(const ProgramGraph& graph) {
  return line_of("program", [&](auto& out) {
    Known known;
    header_form(out, graph, known);
  });
}

GraphObject object_of(const Guard& guard) {
  return line_of("guard", [&](auto& out) { guard_form(out, guard); });
}

GraphObject object_of(const GraphNode& node) {
  return line_of(kind_name(node.kind), [&](auto& out) {
    Known known;
    node_form(out, node, known);
  });
}

std::string json_text(const GraphObject& object) {
  return object.dump(-1, ' ', false, GraphObject::error_handler_t::replace);
}

std::vector<ProgramGraph> read_graph_objects(const NextGraphLine& next) {
  Reader reader;
  while (const auto line = next()) reader.take(line->object, line->number);
  return reader.end();
}

}  // namespace shardlab
