// Placing tensors on the mesh, moving them, and gradients. On one device all of it gives the
// elements as they are.
#include <functional>

#include "api/distribute.h"
#include "autograd/grad_node.h"
#include "autograd/tape.h"
#include "comm/device_mesh.h"
#include "mesh/placement_dims.h"
#include "mesh/type_string.h"
#include "plan/planner_name.h"
#include "sim/language/interpreter.h"
#include "sim/language/mesh_value.h"

namespace shardlab {

namespace {

const MeshLayout* constructed(const MeshLayout* layout) {
  current_rank().meshes->construct(layout);
  return layout;
}

// Text of a type or of placements; its place is that of the call.
ParsedType parsed_type(const std::string& text, const MeshLayout& layout) {
  try {
    return parse_type(text, layout);
  } catch (const TypeStringError& error) {
    throw Error(ErrorKind::kValue, fmt::format("'{}': {}", text, error.summary()));
  }
}

// What a string says about a tensor whose dtype and shape are known.
const DTensorSpec* spec_of_text(const std::string& text, const MeshLayout* layout,
                                const TensorMeta& meta, const Interpreter& in) {
  const ParsedType type = parsed_type(text, *layout);
  if (type.shape != meta.shape) {
    throw Error(ErrorKind::kValue, fmt::format("'{}' is for another shape", text))
        .with("op", fmt::format("the tensor is {}", type_string(meta)));
  }
  if (type.dtype && in.effective(*type.dtype) != meta.dtype) {
    throw Error(ErrorKind::kValue, fmt::format("'{}' is of another dtype", text))
        .with("op", fmt::format("the tensor is {}", type_string(meta)))
        .with("fix", "cast it first: x.to(dtype)");
  }
  return layout->arena().spec(layout, type.placements, type.order, meta);
}

// What a moved tensor has in common with the one it was made from.
enum class Common : std::int64_t { kNothing, kMemory, kHandle };

Common common(const DTensor& source, const DTensor& result) {
  if (source == result) return Common::kHandle;
  const bool shares = source.local().storage() == result.local().storage();
  return shares ? Common::kMemory : Common::kNothing;
}

// The elements of `source` elsewhere: `on_mesh` moves them. On one device they are where they were,
// and only whether a later write reaches both is the ranks' answer.
Value moved(Interpreter& in, const DTensor& source, const std::function<DTensor()>& on_mesh,
            Common otherwise = Common::kNothing) {
  DTensor result;
  const auto own = [&] {
    result = on_mesh();
    return Value(static_cast<std::int64_t>(common(source, result)));
  };
  const Value answer = in.answer(own, static_cast<std::int64_t>(otherwise));
  if (!in.plain()) return result;
  const auto* known = answer.get<std::int64_t>();
  const Common has = known != nullptr ? static_cast<Common>(*known) : otherwise;
  if (has == Common::kHandle) return source;
  return recording_calls().one(has == Common::kMemory ? "aten::alias" : "aten::clone", {source});
}

DTensor distributed(Interpreter& in, const Parameters& given, const DTensor& tensor) {
  const MeshLayout* layout = constructed(layout_of(in, given["mesh"]));
  const DTensorSpec* spec = nullptr;
  if (given.has("placements")) {
    spec = spec_of_text(given.text("placements"), layout, tensor.meta(), in);
  } else {
    const Placements placements =
        placements_of(*layout, Placements(layout->ndim()), given.others(), "distribute");
    spec = layout->arena().spec(layout, normalized(placements, tensor.ndim()), tensor.meta());
  }
  if (tensor.distributed()) {
    if (tensor.spec() == spec) return tensor;
    throw Error(ErrorKind::kValue,
                fmt::format("distribute: {} is distributed already", type_string(tensor)))
        .with("fix", "use x.redistribute(...)");
  }
  if (!is_leaf(tensor)) {
    throw Error(ErrorKind::kRuntime, "distribute: the result of an op cannot become a leaf")
        .with("op", fmt::format("t {}", type_string(tensor)))
        .with("fix", "from_local(t, mesh=mesh) keeps its gradient, t.detach() leaves it behind");
  }
  const Tensor whole = given.has("src_data_rank")
                           ? value_of_source(tensor.local(), layout, given.integer("src_data_rank"))
                           : tensor.local();
  return shardlab::distribute(whole, spec);
}

// The result is a leaf of its own, unless the tensor lay so before.
Value run_distribute(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("distribute", {"t", "placements=", "mesh=", "src_data_rank="},
                         std::move(call), Parameters::Others::kKeep);
  const DTensor tensor = given.tensor("t");
  const DTensor out =
      moved(in, tensor, [&] { return distributed(in, given, tensor); }).as<DTensor>();
  if (out == tensor || !tensor.requires_grad()) return out;
  const DTensor leaf = in.plain() ? detached(out) : out;
  require_grad(leaf);
  return leaf;
}

DTensor labelled(Interpreter& in, const Parameters& given, const DTensor& tensor) {
  if (tensor.distributed()) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("from_local: {} is distributed already", type_string(tensor)))
        .with("fix", "use x.redistribute(...)");
  }
  const MeshLayout* layout = constructed(layout_of(in, given["mesh"]));
  const Placements placements =
      normalized(placements_of(*layout, Placements(layout->ndim()), given.others(), "from_local"),
                 tensor.ndim());
  std::optional<TensorMeta> global;
  if (given.has("shape")) global = contiguous_meta(given.sizes("shape"), tensor.dtype());
  if (!given.flag_or("run_check", false)) return from_local(tensor, layout, placements, global);
  const DTensor checked(checked_piece(tensor.local(), layout, placements));
  return from_local(checked, layout, placements, global);
}

Value run_from_local(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("from_local", {"t", "mesh=", "shape=", "run_check="}, std::move(call),
                         Parameters::Others::kKeep);
  const DTensor tensor = given.tensor("t");
  if (in.plain() && given.has("shape") && given.sizes("shape") != tensor.shape()) {
    fail(ErrorKind::kValue, "from_local: the one piece is {}, the whole has shape [{}]",
         type_string(tensor), fmt::join(given.sizes("shape"), ", "));
  }
  return moved(
      in, tensor, [&] { return labelled(in, given, tensor); }, Common::kMemory);
}

std::optional<PlannerKind> planner_of(const Parameters& given) {
  if (!given.has("planner")) return std::nullopt;
  if (const auto planner = parse_planner(given.text("planner"))) return planner;
  throw Error(ErrorKind::kValue,
              fmt::format("redistribute: no planner is called '{}'", given.text("planner")))
      .with("fix", "greedy, graph or bytes");
}

DTensor redistributed(Interpreter& in, const Parameters& given, const DTensor& tensor) {
  if (!tensor.distributed()) {
    throw Error(ErrorKind::kValue,
                fmt::format("redistribute: {} is a plain tensor", type_string(tensor)))
        .with("fix", "distribute(x, tp=...) places it on the mesh");
  }
  if (!given.has("placements") && given.others().empty()) {
    throw Error(ErrorKind::kRuntime, "redistribute: no placement is given")
        .with("fix", fmt::format("name a mesh dim: x.redistribute({}=R)",
                                 tensor.spec()->layout()->names()[0]));
  }
  const DTensorSpec* source = tensor.spec();
  const MeshLayout* layout = source->layout();
  const DTensorSpec* target = source;
  if (given.has("placements")) {
    target = spec_of_text(given.text("placements"), layout, source->meta(), in);
  }
  if (!given.others().empty()) {
    const Placements placements =
        placements_of(*layout, target->placements(), given.others(), "redistribute");
    target = target->with(normalized(placements, tensor.ndim()));
  }
  return redistribute(tensor, target, {.planner = planner_of(given)});
}

Value run_redistribute(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("redistribute", {"x", "placements=", "planner="}, std::move(call),
                         Parameters::Others::kKeep);
  const DTensor tensor = given.tensor("x");
  return moved(in, tensor, [&] { return redistributed(in, given, tensor); });
}

DTensor local_part(const Parameters& given, const DTensor& tensor) {
  if (!given.has("grad_placements")) return to_local(tensor);
  Placements placements;
  for (const Value& item : items_of(given["grad_placements"])) {
    if (!item.is<Placement>()) given.refuse("grad_placements", "a list of placements");
    placements.push_back(item.as<Placement>());
  }
  return to_local(tensor, normalized(placements, tensor.ndim()));
}

Value run_to_local(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("to_local", {"x", "grad_placements="}, std::move(call));
  const DTensor tensor = given.tensor("x");
  return moved(
      in, tensor, [&] { return local_part(given, tensor); }, Common::kMemory);
}

Value run_full_tensor(Interpreter& in, const Value*, CallValues call) {
  const DTensor tensor = Parameters("full_tensor", {"x"}, std::move(call)).tensor("x");
  return moved(in, tensor, [&] { return tensor.distributed() ? full_tensor(tensor) : tensor; });
}

Value run_shard(Interpreter&, const Value*, CallValues call) {
  const Parameters given("S", {"dim"}, std::move(call));
  return Placement::shard(given.integer("dim"));
}

Value run_strided_shard(Interpreter&, const Value*, CallValues call) {
  const Parameters given("SS", {"dim", "split_factor"}, std::move(call));
  return Placement::strided_shard(given.integer("dim"), given.integer("split_factor"));
}

Value run_partial(Interpreter&, const Value*, CallValues call) {
  const Parameters given("P", {"op="}, std::move(call));
  return Placement::partial(given.has("op") ? reduction_of(given["op"]) : ReduceOp::kSum);
}

Value run_norm_partial(Interpreter&, const Value*, CallValues call) {
  return Placement::norm_partial(Parameters("NP", {"n"}, std::move(call)).number("n"));
}

Graph graph_of(const Parameters& given) {
  return given.flag_or("retain_graph", false) ? Graph::kRetain : Graph::kFree;
}

Value run_backward(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("backward", {"loss", "gradient=", "retain_graph="}, std::move(call));
  in.backward_from(given.tensor("loss"),
                   given.has("gradient") ? given.tensor("gradient") : DTensor(), graph_of(given));
  return {};
}

std::vector<DTensor> tensors_of(const Parameters& given, std::string_view name) {
  const Value& value = given[name];
  if (value.is_tensor()) return {value.as<DTensor>()};
  std::vector<DTensor> out;
  if (value.is_sequence()) {
    for (const Value& item : items_of(value)) {
      if (!item.is_tensor()) given.refuse(name, "a list of tensors");
      out.push_back(item.as<DTensor>());
    }
    return out;
  }
  given.refuse(name, "a tensor or a list of tensors");
}

void check_differentiated(const DTensor& input, std::size_t index) {
  if (requires_grad(input)) return;
  throw Error(ErrorKind::kRuntime, fmt::format("grad: input {} does not require a gradient", index))
      .with("op", type_string(input))
      .with("fix", "set requires_grad = true on it");
}

[[noreturn]] void refuse_unused(std::size_t index) {
  throw Error(ErrorKind::kRuntime,
              fmt::format("grad: the result does not depend on input {}", index))
      .with("fix", "leave it out, or get None for it with allow_unused=True");
}

Value run_grad(Interpreter&, const Value*, CallValues call) {
  const Parameters given("grad",
                         {"loss", "inputs", "gradient=", "grad_outputs=", "retain_graph=",
                          "allow_unused=", "create_graph="},
                         std::move(call));
  if (given.flag_or("create_graph", false)) {
    throw Error(ErrorKind::kUnsupported,
                "grad: gradients are not recorded, so that create_graph "
                "gives nothing to differentiate")
        .with("fix", "leave create_graph out; a second derivative needs a formula of its own");
  }
  const std::string_view seed_name = given.has("grad_outputs") ? "grad_outputs" : "gradient";
  const DTensor seed = given.has(seed_name) ? given.tensor(seed_name) : DTensor();
  const std::vector<DTensor> inputs = tensors_of(given, "inputs");
  for (std::size_t i = 0; i < inputs.size(); ++i) check_differentiated(inputs[i], i);
  const bool unused = given.flag_or("allow_unused", false);
  Values out;
  for (const DTensor& gradient : gradients(given.tensor("loss"), inputs, seed, graph_of(given))) {
    if (!gradient.defined() && !unused) refuse_unused(out.size());
    out.push_back(gradient.defined() ? Value(gradient) : Value());
  }
  return given["inputs"].is_tensor() ? out.at(0) : make_tuple(std::move(out));
}

}  // namespace

BuiltinTable distributed_builtins() {
  static const Builtin kTable[] = {
      {"NP", run_norm_partial},
      {"P", run_partial},
      {"S", run_shard},
      {"SS", run_strided_shard},
      {"backward", run_backward},
      {"distribute", run_distribute},
      {"from_local", run_from_local},
      {"full_tensor", run_full_tensor},
      {"grad", run_grad},
      {"redistribute", run_redistribute},
      {"to_local", run_to_local},
  };
  return kTable;
}

}  // namespace shardlab
