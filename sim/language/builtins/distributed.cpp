// Placing tensors on the mesh, moving them, and gradients. In the single-device run each of these
// functions gives the elements as they are.
#include <functional>

#include "api/mesh.h"
#include "autograd/grad_node.h"
#include "autograd/program.h"
#include "base/error.h"
#include "base/text.h"
#include "base/torch_dtype.h"
#include "comm/device_mesh.h"
#include "mesh/placement_dims.h"
#include "plan/planner_name.h"
#include "sim/language/builtins/placing.h"
#include "sim/language/run/mesh_value.h"

namespace shardlab {

namespace {

// The parts that a moved tensor shares with its source.
enum class Common : std::int64_t { kNothing, kMemory, kHandle };

Common common(const DTensor& source, const DTensor& result) {
  if (source.is_same(result)) return Common::kHandle;
  const bool shares = source.local().storage() == result.local().storage();
  return shares ? Common::kMemory : Common::kNothing;
}

// The elements of `source` elsewhere: `on_mesh` moves them. In the single-device run they stay
// where they are; the ranks' answer decides whether a later write reaches both handles.
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
  return program_calls().one(has == Common::kMemory ? "aten::alias" : "aten::clone", {source});
}

// A type that the program writes, with the dtype that its tensors really have.
std::string written_type(const Parameters& given) {
  const std::string text = given.text("placements");
  const std::size_t open = std::min(text.find('['), text.size());
  const auto dtype = parse_written_dtype(std::string_view(text).substr(0, open));
  return dtype ? std::string(to_string(program_calls().dtype_of(*dtype))) + text.substr(open)
               : text;
}

// [S(0), R]: a placement for each mesh dim.
Placements placements_listed(const Parameters& given, std::string_view name) {
  Placements placements;
  for (const Value& item : items_of(given[name])) {
    if (!item.is<Placement>()) given.refuse(name, "a list of placements", "[R, S(0)]");
    placements.push_back(item.as<Placement>());
  }
  return placements;
}

// A type that is given as a text, "[12@tp, 6]", in place of placements.
bool type_given(const Parameters& given) {
  return given.has("placements") && given["placements"].is<std::string>();
}

// The placements of `placements`, or else `base`; a mesh dim that is named as well, tp=R, has that
// one.
Placements placements_given(const Parameters& given, const MeshLayout& layout, std::size_t ndim,
                            const Placements& base, std::string_view function) {
  if (!given.has("placements") || type_given(given)) {
    return placements_of(layout, base, given.others(), function);
  }
  if (!given["placements"].is_sequence()) {
    given.refuse("placements", "a list of placements", "[R, S(0)]");
  }
  const Placements placements = placements_listed(given, "placements");
  check_count(placements, layout, function);
  return placements_of(layout, normalized(placements, ndim), given.others(), function);
}

DTensor distributed(const Interpreter& in, const Parameters& given, const DTensor& tensor) {
  const MeshLayout* layout = construct_mesh(layout_of(in, given["mesh"]));
  std::optional<std::int64_t> source;
  if (given.has("src_data_rank")) source = given.integer("src_data_rank");
  if (type_given(given)) return distribute_tensor(tensor, layout, written_type(given), source);
  const Placements placements =
      placements_given(given, *layout, tensor.ndim(), Placements(layout->ndim()), "distribute");
  return distribute_tensor(tensor, layout, placements, source);
}

Value run_distribute(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("distribute(t, placements=, mesh=, src_data_rank=, **)", std::move(call));
  const DTensor tensor = given.tensor("t");
  return placed_parameter(in, tensor, [&] { return distributed(in, given, tensor); });
}

// PyTorch's spelling: distribute_tensor(t, mesh, [S(0), R]); without placements all are R.
Value run_distribute_tensor(Interpreter& in, const Value*, const Parameters& given) {
  CallValues own{{given["tensor"], given["placements"]}, {{"mesh", given["device_mesh"]}}};
  if (given.has("src_data_rank"))
    own.keywords.emplace_back("src_data_rank", given["src_data_rank"]);
  return run_distribute(in, nullptr, std::move(own));
}

DTensor labelled(Interpreter& in, const Parameters& given, const DTensor& tensor) {
  if (tensor.distributed()) {
    fail(ErrorKind::kRuntime, Fix{"use x.redistribute(...)"},
         "from_local: {} is distributed already", type_string(tensor));
  }
  const MeshLayout* layout = construct_mesh(layout_of(in, given["mesh"]));
  if (type_given(given)) given.refuse("placements", "a list of placements", "[R, S(0)]");
  const Placements placements =
      placements_given(given, *layout, tensor.ndim(), Placements(layout->ndim()), "from_local");
  std::optional<TensorMeta> global;
  if (given.has("shape")) global = contiguous_meta(given.sizes("shape"), tensor.dtype());
  if (!given.flag_or("run_check", false)) return from_local(tensor, layout, placements, global);
  const CheckPieceEvent check{tensor, layout, &placements};
  return from_local(program_calls().perform(check).at(0).tensor(), layout, placements, global);
}

Value run_from_local(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("from_local(t, mesh=, placements=, shape=, run_check=, **)",
                         std::move(call));
  const DTensor tensor = given.tensor("t");
  if (in.plain() && given.has("shape") && given.sizes("shape") != tensor.shape()) {
    fail(Fix{"leave shape= out, or give the shape of the piece"},
         "from_local: the one piece is {}, the whole has shape [{}]", type_string(tensor),
         text_of_list(given.sizes("shape"), ", "));
  }
  return moved(
      in, tensor, [&] { return labelled(in, given, tensor); }, Common::kMemory);
}

// DTensor.from_local(t, mesh, placements, run_check=, shape=, stride=).
Value run_dtensor_from_local(Interpreter& in, const Value*, const Parameters& given) {
  CallValues own{{given["local_tensor"], given["device_mesh"], given["placements"]}, {}};
  for (const char* name : {"run_check", "shape"}) {
    if (given.has(name)) own.keywords.emplace_back(name, given[name]);
  }
  return run_from_local(in, nullptr, std::move(own));
}

// redistribute(mesh, placements) and device_mesh= are PyTorch's. Returns the layout of the mesh,
// null without one.
const MeshLayout* take_mesh(CallValues& call) {
  const MeshLayout* layout = nullptr;
  if (call.positional.size() > 1 && call.positional[1].is<MeshValue>()) {
    layout = call.positional[1].as<MeshValue>().layout;
    call.positional.erase(call.positional.begin() + 1);
  }
  std::erase_if(call.keywords, [&](const auto& keyword) {
    if (keyword.first != "device_mesh" && keyword.first != "mesh") return false;
    if (const auto* mesh = keyword.second.template get<MeshValue>()) layout = mesh->layout;
    return true;
  });
  return layout;
}

std::optional<PlannerKind> planner_of(const Parameters& given) {
  if (!given.has("planner")) return std::nullopt;
  if (const auto planner = parse_planner(given.text("planner"))) return planner;
  fail(Fix{"greedy, graph or bytes"}, "redistribute: no planner is called '{}'",
       given.text("planner"));
}

// In reference precision nothing is rounded on its way either.
std::optional<DType> moved_dtype(const Parameters& given, std::string_view name) {
  const auto dtype = given.dtype(name);
  return dtype ? std::optional(program_calls().dtype_of(*dtype)) : std::nullopt;
}

DTensor redistributed(const Parameters& given, const DTensor& tensor, const MeshLayout* mesh) {
  const bool async = given.flag_or("async_op", false);
  const RedistributeOptions options{.issue = async ? Issue::kAsync : Issue::kWait,
                                    .planner = planner_of(given)};
  const RedistributeDTypes dtypes{.forward = moved_dtype(given, "forward_dtype"),
                                  .backward = moved_dtype(given, "backward_dtype")};
  const DTensorSpec& source = spec_of(tensor);
  const MeshLayout* layout = mesh == nullptr ? source.layout() : mesh;
  const bool text = type_given(given);
  if (layout != source.layout()) {
    construct_mesh(layout);
    const Placements whole(layout->ndim());
    const DTensorSpec* target =
        text ? spec_of(written_type(given), layout, source.meta())
             : spec_of(placements_given(given, *layout, tensor.ndim(), whole, "redistribute"),
                       layout, source.meta());
    return redistribute(tensor, target, options, dtypes);
  }
  if (text && given.others().empty()) {
    return redistribute(tensor, written_type(given), options, dtypes);
  }
  if (!given.has("placements") && given.others().empty()) {
    fail(ErrorKind::kRuntime,
         Fix{fmt::format("name a mesh dim: x.redistribute({}=R)", layout->names()[0])},
         "redistribute: no placement is given");
  }
  const DTensorSpec* base = text ? spec_of(written_type(given), layout, source.meta()) : &source;
  const Placements placements =
      placements_given(given, *layout, tensor.ndim(), base->placements(), "redistribute");
  return redistribute(tensor, placements, options, dtypes);
}

Value run_redistribute(Interpreter& in, const Value*, CallValues call) {
  const MeshLayout* mesh = take_mesh(call);
  const Parameters given(
      "redistribute(x, placements=, planner=, async_op=, forward_dtype=, backward_dtype=, **)",
      std::move(call));
  const DTensor tensor = given.tensor("x");
  const auto dtype = moved_dtype(given, "forward_dtype");
  if (in.plain() && dtype && *dtype != tensor.dtype()) return Interpreter::cast(tensor, *dtype);
  return moved(in, tensor, [&] { return redistributed(given, tensor, mesh); });
}

DTensor local_part(const Parameters& given, const DTensor& tensor) {
  if (!given.has("grad_placements")) return to_local(tensor);
  return to_local(tensor, normalized(placements_listed(given, "grad_placements"), tensor.ndim()));
}

Value run_to_local(Interpreter& in, const Value*, const Parameters& given) {
  const DTensor tensor = given.tensor("x");
  return moved(
      in, tensor, [&] { return local_part(given, tensor); }, Common::kMemory);
}

Value run_full_tensor(Interpreter& in, const Value*, const Parameters& given) {
  const DTensor tensor = given.tensor("x");
  return moved(in, tensor, [&] { return tensor.distributed() ? full_tensor(tensor) : tensor; });
}

Value run_detach_here(Interpreter&, const Value*, const Parameters& given) {
  const DTensor input = given.tensor("input");
  detach_in_place(input);
  return input;
}

Graph graph_of(const Parameters& given) {
  if (given.flag_or("create_graph", false)) return Graph::kCreate;
  return given.flag_or("retain_graph", false) ? Graph::kRetain : Graph::kFree;
}

std::vector<DTensor> tensors_of(const Parameters& given, std::string_view name) {
  const Value& value = given[name];
  if (value.is_tensor()) return {value.as<DTensor>()};
  std::vector<DTensor> out;
  if (value.is_sequence()) {
    for (const Value& item : items_of(value)) {
      if (!item.is_tensor()) given.refuse(name, "a list of tensors", "[x, y]");
      out.push_back(item.as<DTensor>());
    }
    return out;
  }
  given.refuse(name, "a tensor or a list of tensors", "[x, y]");
}

Value run_backward(Interpreter& in, const Value*, const Parameters& given) {
  in.backward_from(given["loss"].is_sequence() && items_of(given["loss"]).size() == 1
                       ? tensors_of(given, "loss")[0]
                       : given.tensor("loss"),
                   given.has("gradient") ? given.tensor("gradient") : DTensor(), graph_of(given));
  return {};
}

void check_differentiated(const DTensor& input, std::size_t index) {
  if (requires_grad(input)) return;
  throw Error(ErrorKind::kRuntime, fmt::format("grad: input {} does not require a gradient", index))
      .with("op", type_string(input))
      .with("fix", "set requires_grad = true on it");
}

[[noreturn]] void refuse_unused(std::size_t index) {
  fail(ErrorKind::kRuntime, Fix{"leave it out, or get None for it with allow_unused=True"},
       "grad: the result does not depend on input {}", index);
}

Values gradients_of(Interpreter& in, const Parameters& given, std::string_view of) {
  const std::string_view seed_name = given.has("grad_outputs") ? "grad_outputs" : "gradient";
  const DTensor seed = given.has(seed_name) ? given.tensor(seed_name) : DTensor();
  const std::vector<DTensor> inputs = tensors_of(given, "inputs");
  for (std::size_t i = 0; i < inputs.size(); ++i) check_differentiated(inputs[i], i);
  const bool unused = given.flag_or("allow_unused", false);
  const DTensor loss = given.tensor(of);
  in.report_backward(loss, seed);
  Values out;
  for (const DTensor& gradient : gradients(loss, inputs, seed, graph_of(given))) {
    if (!gradient.defined() && !unused) refuse_unused(out.size());
    out.push_back(gradient.defined() ? Value(gradient) : Value());
  }
  return out;
}

// Ours: one gradient of one tensor.
Value run_grad(Interpreter& in, const Value*, const Parameters& given) {
  Values out = gradients_of(in, given, "loss");
  return given["inputs"].is_tensor() ? out.at(0) : make_tuple(std::move(out));
}

Value run_torch_grad(Interpreter& in, const Value*, const Parameters& given) {
  return make_tuple(gradients_of(in, given, "outputs"));
}

}  // namespace

void check_count(const Placements& placements, const MeshLayout& layout,
                 std::string_view function) {
  if (placements.size() == layout.ndim()) return;
  fail(Fix{fmt::format("give one for each mesh dim, or some by name: {}=R", layout.names()[0])},
       "{}: the number of placements is {}, and the mesh {} has {} dims", function,
       placements.size(), layout.text(), layout.ndim());
}

DTensor placed_parameter(Interpreter& in, const DTensor& tensor,
                         const std::function<DTensor()>& on_mesh) {
  const DTensor out = moved(in, tensor, on_mesh).as<DTensor>();
  const Value leaf = in.answer([&] { return Value(is_leaf(out)); }, true);
  const bool stays = out.is_same(tensor) || !tensor.requires_grad() || !leaf.as<bool>();
  if (!in.plain() || stays) return out;
  const DTensor own = detached(out);
  require_grad(own);
  return own;
}

BuiltinTable autograd_builtins() {
  static const Builtin kTable[] = {
      {"backward", "(loss, gradient=, retain_graph=, create_graph=)", run_backward},
      {"grad",
       "(outputs, inputs, grad_outputs=, retain_graph=, create_graph=, only_inputs=, "
       "allow_unused=)",
       run_torch_grad}};
  return kTable;
}

BuiltinTable dtensor_builtins() {
  static const Builtin kTable[] = {
      {"from_local",
       "DTensor.from_local(local_tensor, device_mesh=, placements=, run_check=, shape=, stride=)",
       run_dtensor_from_local}};
  return kTable;
}

BuiltinTable distributed_builtins() {
  static const Builtin kTable[] = {
      {"backward", "(loss, gradient=, retain_graph=, create_graph=)", run_backward},
      {"detach", "(input)",
       [](auto&, auto*, auto& given) -> Value { return detach(given.tensor("input")); }},
      {"detach_", "(input)", run_detach_here},
      {"distribute", run_distribute},
      {"distribute_tensor", "(tensor, device_mesh=, placements=, src_data_rank=)",
       run_distribute_tensor},
      {"from_local", run_from_local},
      {"full_tensor", "(x)", run_full_tensor},
      {"grad",
       "(loss, inputs, gradient=, grad_outputs=, retain_graph=, allow_unused=, create_graph=)",
       run_grad},
      {"redistribute", run_redistribute},
      {"to_local", "(x, grad_placements=)", run_to_local},
  };
  return kTable;
}

}  // namespace shardlab
