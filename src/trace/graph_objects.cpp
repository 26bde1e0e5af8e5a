// Fields that hold their default are not written. Lists of ints are written plainly, as in recorded
// programs; a list of arguments that could be taken for one is marked as a list.
#include "trace/graph_objects.h"

#include <algorithm>
#include <cmath>

#include "mesh/mesh_layout.h"
#include "tensor/tensor.h"

namespace shardlab {

namespace {

using Json = GraphObject;

Json json_of(const Dims& sizes) {
  Json list = Json::array();
  for (const std::int64_t size : sizes) list.push_back(size);
  return list;
}

Json json_of(double value) {
  if (std::isfinite(value)) return value;
  return {{"f", std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"}};
}

Json json_of(const Scalar& scalar) {
  switch (scalar.category()) {
    case Category::kBool:
      return scalar.to_bool();
    case Category::kInteger:
      return scalar.to_int();
    case Category::kFloat:
      return json_of(scalar.to_double());
    default:
      return {{"c", {json_of(scalar.to_double()), json_of(scalar.imaginary())}}};
  }
}

Json json_of(const std::vector<Scalar>& values) {
  Json list = Json::array();
  for (const Scalar& value : values) list.push_back(json_of(value));
  return list;
}

Json json_of(ValueRef value) { return {{"v", value.id}}; }

Json json_of(const GraphArgument& argument);

// All ints, or nothing at all: the plain form means sizes.
bool looks_like_sizes(const std::vector<GraphArgument>& items) {
  return std::ranges::all_of(items, [](const GraphArgument& item) {
    const auto* scalar = std::get_if<Scalar>(&item.value);
    return scalar != nullptr && scalar->category() == Category::kInteger;
  });
}

Json json_of(const GraphArgument& argument) {
  struct Visitor {
    Json operator()(std::monostate) const { return nullptr; }
    Json operator()(const Scalar& value) const { return json_of(value); }
    Json operator()(ValueRef value) const { return json_of(value); }
    Json operator()(const Dims& value) const { return json_of(value); }
    Json operator()(DType value) const { return {{"dtype", to_string(value)}}; }
    Json operator()(const std::string& value) const { return value; }
    Json operator()(GeneratorRef value) const { return {{"generator", value.index}}; }
    Json operator()(NumberRef value) const { return {{"n", value.index}}; }
    Json operator()(const std::vector<GraphArgument>& items) const {
      Json list = Json::array();
      for (const GraphArgument& item : items) list.push_back(json_of(item));
      if (looks_like_sizes(items)) return {{"list", list}};
      return list;
    }
  };
  return std::visit(Visitor{}, argument.value);
}

void describe(Json& json, const ValueType& type) {
  json["shape"] = json_of(type.shape);
  json["dtype"] = to_string(type.dtype);
  if (type.mesh < 0) {
    json["local"] = true;
  } else {
    Json placements = Json::array();
    for (const Placement& placement : type.placements) placements.push_back(to_string(placement));
    json["placements"] = std::move(placements);
    const bool usual = type.order.empty() || type.order == default_order(type.placements);
    if (!usual) {
      Json order = Json::array();
      for (const std::int32_t place : type.order) order.push_back(place);
      json["order"] = std::move(order);
    }
    if (type.mesh > 0) json["mesh"] = type.mesh;
  }
  if (type.stride != contiguous_strides(type.shape)) json["stride"] = json_of(type.stride);
}

Json json_of(const ValueType& type) {
  Json json = Json::object();
  describe(json, type);
  return json;
}

Json json_of(const GraphResult& result) {
  if (result.value.id < 0) return nullptr;
  Json json = {{"v", result.value.id}};
  describe(json, result.type);
  return json;
}

Json json_of(const GraphMesh& mesh) {
  Json json = {{"shape", json_of(mesh.shape)}, {"names", mesh.names}};
  if (!mesh.ranks.empty()) json["ranks"] = mesh.ranks;
  if (mesh.base < 0) return json;
  json["base"] = mesh.base;
  json["part"] = mesh.part;
  if (mesh.flattened) json["flattened"] = true;
  return json;
}

Json json_of(const GraphPolicies& policies) {
  Json json = Json::object();
  if (!policies.planner.empty()) json["planner"] = policies.planner;
  if (!policies.implicit.empty()) json["implicit"] = policies.implicit;
  if (!policies.mixed.empty()) json["mixed"] = policies.mixed;
  for (const auto& [op, rule, local] : policies.rules) {
    Json one = {{"op", op}, {"rule", rule}};
    if (!local.empty()) one["local"] = local;
    json["rules"].push_back(std::move(one));
  }
  for (const GraphPolicies::Link& link : policies.links) {
    Json one = {{"dim", link.mesh_dim}};
    if (link.gbps) one["gbps"] = json_of(*link.gbps);
    if (link.us) one["us"] = json_of(*link.us);
    json["links"].push_back(std::move(one));
  }
  return json;
}

Json json_of(const GraphMove& move) {
  return {{"t", move.argument},
          {"op", move.op},
          {"from", move.from},
          {"to", move.to},
          {"plan", move.plan}};
}

Json json_of(const GraphCollective& collective) {
  Json json = {{"c", to_string(collective.kind)}, {"group", collective.group}};
  if (!collective.ranks.empty()) json["ranks"] = collective.ranks;
  if (collective.op) json["reduce"] = to_string(*collective.op);
  json["dtype"] = to_string(collective.dtype);
  json["shape"] = json_of(collective.shape);
  if (collective.pass == Pass::kBackward) json["pass"] = "bwd";
  if (collective.waits) json["waits"] = true;
  return json;
}

Json json_of(const InputRecipe& recipe) {
  Json json = {{"init", recipe.init}};
  if (!recipe.arguments.empty()) json["arguments"] = json_of(recipe.arguments);
  if (recipe.scale != 1) json["scale"] = json_of(recipe.scale);
  if (!recipe.values.empty()) json["values"] = json_of(recipe.values);
  if (!recipe.sizes.empty()) json["written"] = recipe.sizes;
  if (!recipe.dynamic.empty()) json["open"] = recipe.dynamic;
  return json;
}

std::string hex(std::uint64_t number) { return fmt::format("{:016x}", number); }

}  // namespace

GraphObject object_of(const ProgramGraph& graph) {
  Json json = {{"k", "program"}, {"form", "capture"}, {"program", graph.title}};
  if (!graph.file.empty()) json["file"] = graph.file;
  json["world"] = graph.world;
  if (!graph.ranks.empty()) json["ranks"] = graph.ranks;
  json["seed"] = graph.seed;
  Json meshes = Json::array();
  for (const GraphMesh& mesh : graph.meshes) meshes.push_back(json_of(mesh));
  json["meshes"] = std::move(meshes);
  json["policies"] = json_of(graph.policies);
  json["n_values"] = graph.values;
  if (graph.numbers > 0) json["n_numbers"] = graph.numbers;
  if (graph.dynamic) json["dynamic"] = true;
  for (const auto& [name, size] : graph.sizes) {
    json["sizes"].push_back({{"name", name}, {"size", size}});
  }
  for (const RandomState& state : graph.generators) {
    json["generators"].push_back({{"seed", state.seed}, {"offset", state.offset}});
  }
  for (const ValueRef value : graph.outputs) {
    json["outputs"].push_back(value.id >= 0 ? Json(value.id) : Json(nullptr));
  }
  Json left = Json::array();
  for (const ValueRef value : graph.left) left.push_back(value.id);
  json["left"] = std::move(left);
  for (const std::uint64_t digest : graph.digests) json["digests"].push_back(hex(digest));
  return json;
}

GraphObject object_of(const Guard& guard) {
  Json json = {{"k", "guard"},
               {"guard", to_string(guard.kind)},
               {"source", guard.source},
               {"expected", guard.expected}};
  if (guard.line > 0) json["line"] = guard.line;
  return json;
}

namespace {

void put_options(Json& json, const GraphNode& node) {
  if (node.target) json["to"] = json_of(*node.target);
  if (node.async) json["async"] = true;
  if (node.planner) json["planner"] = *node.planner;
  if (node.forward_dtype) json["forward_dtype"] = to_string(*node.forward_dtype);
  if (node.backward_dtype) json["backward_dtype"] = to_string(*node.backward_dtype);
  if (node.source) json["source"] = *node.source;
  if (node.tag != 0) json["tag"] = node.tag;
  if (node.kind == NodeKind::kCollective) {
    if (node.group.mesh >= 0)
      json["group"] = {{"mesh", node.group.mesh}, {"dims", node.group.dims}};
    json["reduce"] = to_string(node.op);
    json["dim"] = node.dim;
    json["split_dim"] = node.split_dim;
    if (!node.sent.empty()) json["sent"] = node.sent;
    if (!node.received.empty()) json["received"] = node.received;
  }
  if (node.mesh >= 0) json["mesh"] = node.mesh;
  if (!node.mesh_dims.empty()) json["mesh_dims"] = node.mesh_dims;
  if (!node.required) json["required"] = false;
  if (node.number >= 0) json["number"] = node.number;
  if (node.hook >= 0) json["hook"] = node.hook;
  if (node.zeros) json["zeros"] = true;
  if (node.once) json["once"] = true;
  if (node.in_place) json["in_place"] = true;
  if (node.work >= 0) json["work"] = node.work;
  if (node.graph == Graph::kRetain) json["retain"] = true;
  if (node.graph == Graph::kCreate) json["create"] = true;
  if (node.of_inputs) json["of_inputs"] = true;
  if (node.requires_grad) json["requires_grad"] = true;
  if (!node.recipe.init.empty()) json["recipe"] = json_of(node.recipe);
}

}  // namespace

GraphObject object_of(const GraphNode& node) {
  Json json = {{"k", kind_name(node.kind)}};
  if (!node.name.empty()) json["name"] = node.name;
  Json args = Json::array();
  for (const GraphArgument& argument : node.args) args.push_back(json_of(argument));
  if (!args.empty()) json["args"] = std::move(args);
  put_options(json, node);
  if (node.data.size() == 1) json["data"] = json_of(node.data[0]);
  if (node.data.size() > 1) {
    for (const std::vector<Scalar>& data : node.data) json["data_ranks"].push_back(json_of(data));
  }
  Json out = Json::array();
  for (const GraphResult& result : node.results) out.push_back(json_of(result));
  if (!out.empty()) json["out"] = std::move(out);
  if (node.generator) json["generator"] = node.generator->index;
  if (node.kind == NodeKind::kSeed) json["seed"] = node.seed;
  if (!node.taped) json["taped"] = false;
  if (node.replicates) json["replicates"] = true;
  if (node.target_view) json["target_view"] = true;
  if (node.line > 0) json["at"] = {node.line, node.column};
  for (const GraphMove& move : node.moves) json["redist"].push_back(json_of(move));
  for (const GraphCollective& one : node.collectives) json["comm"].push_back(json_of(one));
  if (node.error) json["error"] = {{"class", node.error->kind}, {"message", node.error->message}};
  return json;
}

std::string json_text(const GraphObject& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace shardlab
