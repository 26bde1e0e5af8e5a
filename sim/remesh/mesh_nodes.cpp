// An operand that a statement takes is the value, or nodes in front of the statement.
#include "sim/remesh/mesh_nodes.h"

#include <algorithm>

#include "base/error.h"
#include "dispatch/all_ops.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "sim/recording/recorded_arguments.h"
#include "trace/graph_meshes.h"

namespace shardlab {

namespace {

// Facts about the making of a tensor, without effect on values.
bool is_left_out(const SchemaArgument& declared) {
  return declared.type.kind == TypeKind::kDevice || declared.type.kind == TypeKind::kLayout ||
         declared.type.kind == TypeKind::kGenerator || declared.name == "pin_memory" ||
         declared.name == "non_blocking";
}

std::string text_of(const Moved& moved) {
  std::string text;
  for (const auto& [dim, placement] : moved) text += dim + "=" + to_string(placement) + " ";
  return text;
}

}  // namespace

GraphArgument list_argument(const std::vector<std::int32_t>& values) {
  std::vector<GraphArgument> items;
  for (const std::int32_t value : values) items.push_back(value_argument(value));
  return {std::move(items)};
}

MeshNodes::MeshNodes(const CallProgram& of, const PlanMesh& mesh, const MeshPlan& by,
                     std::optional<DType> dtype)
    : program(of), plan(by), mesh_(mesh), dtype_(dtype) {
  const RecordedProgram& recording = *program.recording;
  graph.values = program.values;
  graph.title = recording.title;
  graph.file = recording.path;
  graph.policies.implicit = "allow";
  GraphMesh whole;
  for (const PlanMeshDim& dim : mesh_) {
    whole.names.push_back(dim.name);
    whole.shape.push_back(dim.size);
  }
  graph.world = product(whole.shape);
  graph.meshes = {std::move(whole)};
  if (recording.shapes_only) names.backend = "fake";
  names.values = {program.names.begin(), program.names.end()};
  for (const auto& [value, name] : program.names) taken_.insert(name);
}

GraphNode& MeshNodes::node(NodeKind kind, Written written) {
  GraphNode& node = graph.nodes.emplace_back();
  node.kind = kind;
  node.taped = now == nullptr || !now->no_grad;
  names.inside.push_back(written == Written::kInside);
  names.comments.push_back(written == Written::kStatement ? comment : "");
  return node;
}

GraphNode& MeshNodes::made_of(NodeKind kind, std::int32_t value, std::int32_t result,
                              Written written) {
  GraphNode& one = node(kind, written);
  one.args = {value_argument(value)};
  one.results = {{ValueRef{result}, {}}};
  return one;
}

std::int32_t MeshNodes::fresh(const std::string& name) {
  const std::int32_t value = graph.values++;
  if (name.empty()) return value;
  std::string own = name;
  for (int i = 2; !taken_.insert(own).second; ++i) own = fmt::format("{}_{}", name, i);
  names.values[value] = own;
  return value;
}

std::int32_t MeshNodes::inside(const std::string& op, std::vector<GraphArgument> args) {
  const std::int32_t result = fresh();
  call(op, std::move(args), result, Written::kInside);
  return result;
}

void MeshNodes::call(const std::string& op, std::vector<GraphArgument> args, std::int32_t result,
                     Written written) {
  const OpRow* row = all_ops().find(op);
  for (std::size_t i = args.size(); i < row->op.arguments.size(); ++i) {
    args.push_back(plain_argument(row->defaults()[i]));
  }
  GraphNode& one = node(NodeKind::kOp, written);
  one.name = op;
  one.args = std::move(args);
  one.results = {{ValueRef{result}, {}}};
}

std::int32_t MeshNodes::moved(std::int32_t value, const Moved& towards, std::int32_t result,
                              Written written) {
  made_of(NodeKind::kRedistribute, value, result, written).towards = towards;
  return result;
}

std::int32_t MeshNodes::before_end(std::int32_t value) {
  const std::int32_t before = fresh();
  const auto name = names.values.find(value);
  if (name != names.values.end()) names.values[before] = std::string(name->second);
  return before;
}

ValueType MeshNodes::input_type(const CallInput& input) const {
  ValueType type = replica_type(input.meta.shape, input.meta.dtype);
  const auto& cuts = plan.cuts.at(input.value);
  for (std::size_t dim = 0; dim < cuts.size(); ++dim) {
    for (std::size_t i = 0; i < cuts[dim].size(); ++i) {
      const auto at = std::ranges::find(mesh_, cuts[dim][i], &PlanMeshDim::name) - mesh_.begin();
      type.placements[static_cast<std::size_t>(at)] =
          Placement::shard(static_cast<std::int64_t>(dim));
      type.order[static_cast<std::size_t>(at)] = static_cast<std::int32_t>(i);
    }
  }
  return type;
}

std::string MeshNodes::comment_of(const RecordedEvent& event) const {
  std::string place = place_of(*program.recording, event);
  std::erase_if(place, [](char c) { return c == '\'' || c == '\\' || c < ' '; });
  return place;
}

std::int32_t MeshNodes::operand(std::int32_t value, std::size_t index, bool one_use) {
  const std::int32_t placed = placed_operand(value, index, one_use);
  const auto cast = now->casts.find(value);
  if (cast == now->casts.end()) return placed;
  return inside("aten::to.dtype", {value_argument(placed), {dtype_of_all(cast->second)}});
}

std::int32_t MeshNodes::placed_operand(std::int32_t value, std::size_t index, bool one_use) {
  std::int32_t text = own(value);
  const bool detaches = now->takes_detached(value, index);
  if (detaches) text = detach(text);
  const auto before = plan.before.find({at, value});
  if (before == plan.before.end()) return text;
  // Parameters are gathered for each use, results once for all.
  if (program.input(value) != nullptr && one_use) {
    return moved(text, before->second, fresh(), Written::kInside);
  }
  const auto [known, added] = moved_.try_emplace({value, detaches, text_of(before->second)}, -1);
  if (!added) return known->second;
  const std::string own_comment = std::exchange(comment, "");
  known->second = fresh(program.names.at(value) + "_moved");
  const std::int32_t copy = moved(text, before->second, known->second, Written::kStatement);
  comment = own_comment;
  return copy;
}

std::int32_t MeshNodes::detach(std::int32_t value) {
  const std::int32_t result = fresh();
  made_of(NodeKind::kDetach, value, result, Written::kInside);
  return result;
}

std::int32_t MeshNodes::own(std::int32_t value) const {
  const auto found = renamed.find(value);
  return found == renamed.end() ? value : found->second;
}

std::vector<GraphArgument> MeshNodes::arguments(const Statement& one, const OpRow& row) {
  std::vector<GraphArgument> args = one.args;
  std::size_t index = 0;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (is_complex_number(args[i]) && row.op.arguments[i].type.is_tensor()) {
      args[i] = complex_tensor(std::get<Scalar>(args[i].value));
      continue;
    }
    if (is_left_out(row.op.arguments.at(i))) args[i] = plain_argument(row.defaults()[i]);
    substitute(args[i], index);
  }
  return args;
}

// Programs cannot say complex numbers.
GraphArgument MeshNodes::complex_tensor(const Scalar& number) {
  const auto part = [&](double own) {
    return value_argument(inside("aten::scalar_tensor", {{Scalar(own)}}));
  };
  const std::int32_t made =
      inside("aten::complex", {part(number.to_double()), part(number.imaginary())});
  const std::int32_t result = fresh();
  distribute(made, plain_type(contiguous_meta({}, DType::kC64)), result, Written::kInside);
  return value_argument(result);
}

void MeshNodes::substitute(GraphArgument& argument, std::size_t& index) {
  if (auto* value = std::get_if<ValueRef>(&argument.value)) {
    value->id = operand(value->id, index++);
  } else if (auto* list = std::get_if<std::vector<GraphArgument>>(&argument.value)) {
    for (GraphArgument& item : *list) substitute(item, index);
  } else if (auto* dtype = std::get_if<DType>(&argument.value)) {
    *dtype = dtype_of_all(*dtype);
  }
}

void MeshNodes::distribute(std::int32_t value, const ValueType& like, std::int32_t result,
                           Written written) {
  made_of(NodeKind::kDistribute, value, result, written).target =
      replica_type(like.shape, like.dtype);
}

ValueType MeshNodes::replica_type(const Dims& shape, DType dtype) const {
  ValueType type = plain_type(contiguous_meta(shape, dtype_of_all(dtype)));
  type.mesh = 0;
  type.placements = Placements(mesh_.size());
  type.order = ShardOrder(mesh_.size(), -1);
  return type;
}

// PyTorch's rules cut no dim into more pieces than it has elements, and keep one that is cut so.
bool MeshNodes::is_cut_thin(const CallInput& input) const {
  const Dims& shape = input.meta.shape;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    std::int64_t pieces = 1;
    for (const std::string& name : plan.cuts.at(input.value)[dim]) {
      pieces *= std::ranges::find(mesh_, name, &PlanMeshDim::name)->size;
    }
    if (pieces > shape[dim]) return true;
  }
  return false;
}

void MeshNodes::place_as_written(const Statement& one, std::vector<GraphArgument>& args) {
  const CallInput* written = program.input(one.takes[0]);
  if (written == nullptr || !is_cut_thin(*written)) return;
  for (std::size_t i = 1; i < args.size(); ++i) {
    auto* value = std::get_if<ValueRef>(&args[i].value);
    if (value != nullptr && program.shape_of(value->id) == written->meta.shape) {
      value->id = as_placed(value->id, *written);
    }
  }
}

std::int32_t MeshNodes::as_placed(std::int32_t value, const CallInput& input) {
  const std::int32_t result = moved(value, {}, fresh(), Written::kInside);
  graph.nodes.back().target = input_type(input);
  return result;
}

}  // namespace shardlab
