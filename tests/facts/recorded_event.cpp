// Calls are made without a tape. The reference was recorded between autograd and dispatch: a user's
// call is recorded as the calls that it is made of.
#include "tests/facts/recorded_event.h"

#include <cmath>

#include "autograd/grad_mode.h"
#include "autograd/program.h"
#include "base/error.h"
#include "dispatch/all_ops.h"
#include "mesh/local_shape.h"
#include "mesh/mesh_views.h"
#include "mesh/placement_dims.h"
#include "redistribute/redistribute.h"
#include "schema/binder.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "schema/torch_spelling.h"
#include "sim/language/values/op_call.h"
#include "sim/recording/elements.h"
#include "sim/replay/watch.h"
#include "tensor/host.h"
#include "tests/facts/fact_json.h"

namespace shardlab {

namespace {

// Below autograd a detached tensor, and one that a number was lifted to, is an alias.
std::string row_name(const std::string& recorded) {
  std::string name = recorded;
  if (name.ends_with(".default")) name.resize(name.size() - 8);
  if (name == "aten.detach" || name == "aten.lift_fresh") return "aten::alias";
  if (const std::size_t dot = name.find('.'); dot != std::string::npos) name.replace(dot, 1, "::");
  return name;
}

Tensor tensor_of(Device& device, const Dims& shape, DType dtype,
                 const std::vector<double>& values) {
  const Tensor tensor = empty(device, shape, dtype);
  const std::int64_t parts = is_complex(dtype) ? 2 : 1;
  if (static_cast<std::int64_t>(values.size()) != product(shape) * parts) {
    fail(ErrorKind::kValue, Fix{"give one number per element"},
         "a value of {} elements is recorded with {} numbers", product(shape), values.size());
  }
  if (is_integral(dtype)) {
    write_integers(tensor, std::vector<std::int64_t>(values.begin(), values.end()));
  } else {
    write_doubles(tensor, values);
  }
  return tensor;
}

Results flattened(const Results& results) {
  Results flat;
  for (const Argument& result : results) {
    if (result.is_list()) {
      for (const Argument& item : result.list()) flat.push_back(item);
    } else {
      flat.push_back(result);
    }
  }
  return flat;
}

void append_numbers(const Json& data, std::vector<double>& out) {
  if (data.is_array()) {
    for (const Json& item : data) append_numbers(item, out);
  } else if (data.is_boolean()) {
    out.push_back(data.get<bool>() ? 1 : 0);
  } else {
    out.push_back(number_of(data.is_object() ? data.at("f") : data));
  }
}

// One rank's part of one event.
class PlayedFact {
 public:
  PlayedFact(const Json& event, const MeshLayout* mesh, const std::vector<DTensor>& values)
      : rank_(current_rank()), mesh_(mesh), values_(values), event_(event) {}

  Results run() const {
    const std::string kind = event_.at("k").get<std::string>();
    if (kind == "input" || kind == "const") return {given(kind == "const")};
    if (of_loss_parallel(event_))
      return loss_of_pieces(row_name(event_.at("op").get<std::string>()), arguments());
    if (kind == "op" || kind == "local_op") return call();
    if (kind == "check") return {value(event_.at("v"))};
    const DTensor& x = value(event_.at("in"));
    require_level(x, kind);
    if (kind == "redistribute") return {moved(x)};
    if (kind == "redistribute_bwd") return {moved_back(x)};
    if (kind == "to_local") return {local_of(x)};
    if (kind == "from_local") return {labelled(x, event_.at("to"))};
    if (kind == "to_local_bwd") return {labelled(x, event_.at("forward_from"))};
    if (kind == "from_local_bwd") return {unlabelled(x)};
    fail(ErrorKind::kValue, Fix{"see tests/golden/facts/programs/README.md"},
         "a program has no event '{}'", kind);
  }

 private:
  // A move that labels takes a plain tensor; all others take a distributed one.
  static void require_level(const DTensor& x, const std::string& kind) {
    const bool labels = kind == "from_local" || kind == "to_local_bwd";
    if (x.defined() && x.distributed() != labels) return;
    fail(ErrorKind::kValue, Fix{"see tests/golden/facts/programs/README.md"},
         "'in' of {} has to be a {} tensor", kind, labels ? "plain" : "distributed");
  }

  const DTensor& value(const Json& number) const {
    return values_.at(integer_of<std::size_t>(number));
  }

  // The mesh of a recorded value.
  const MeshLayout* mesh_of_value(const Json& recorded) const {
    return recorded_layout(recorded, mesh_, rank_.rank);
  }

  DTensor given(bool constant) const {
    const DType dtype = dtype_of(event_.at("dtype"));
    const Dims shape = dims_of(event_.at("shape"));
    const Tensor whole = given_whole(shape, dtype);
    if (constant || event_.value("local", false)) return DTensor(whole);
    const MeshLayout* layout = mesh_of_value(event_);
    const DTensorSpec* spec =
        layout->arena().spec(layout, placements_of(event_.at("placements")), whole.meta());
    return one(DistributeEvent{DTensor(whole), spec, {}});
  }

  Tensor given_whole(const Dims& shape, DType dtype) const {
    if (rank_.device->shape_only()) return empty(*rank_.device, shape, dtype);
    return tensor_of(*rank_.device, shape, dtype, recorded_elements(event_, dtype, product(shape)));
  }

  Argument argument(const Json& recorded) const {
    if (recorded.is_object() && recorded.contains("v")) return value(recorded.at("v"));
    if (recorded.is_object() && recorded.contains("f")) return number_of(recorded.at("f"));
    if (recorded.is_object() && recorded.contains("memory_format")) {
      return recorded.at("memory_format").get<std::string>() + "_format";
    }
    if (!recorded.is_array()) return fact_argument(nullptr, recorded);
    ArgumentList list;
    bool ints = true;
    Dims sizes;
    for (const Json& item : recorded) {
      list.push_back(argument(item));
      ints = ints && item.is_number_integer();
      if (ints) sizes.push_back(list.back().to_int());
    }
    return ints ? Argument(std::move(sizes)) : Argument(std::move(list));
  }

  Results call() const {
    GivenArguments given;
    given.positional = arguments();
    const Json& keywords = keywords_of(event_);
    for (const auto& [name, recorded] : keywords.items()) {
      given.keywords.emplace_back(name, argument(recorded));
    }
    const ResolvedCall call = recorded_call(*fact_row(event_), given);
    return flattened(program_calls().perform(OpEvent{call.row, &call.args}));
  }

  // Positional arguments as they are.
  Arguments arguments() const {
    Arguments given;
    for (const Json& recorded : event_.at("args")) given.push_back(argument(recorded));
    return given;
  }

  static DTensor one(const ProgramEvent& event) {
    return program_calls().perform(event).at(0).tensor();
  }

  // A handle of its own, also where nothing moves.
  static DTensor apart(const DTensor& x, const DTensorSpec* target,
                       const RedistributeOptions& options = {}) {
    const DTensor result = one(RedistributeEvent{x, target, options, {}});
    return result.is_same(x) ? one(DetachEvent{x, false}) : result;
  }

  // Below autograd the placements of its gradient do not matter.
  static DTensor local_of(const DTensor& x) {
    const DTensorSpec& spec = *x.spec();
    return one(ToLocalEvent{x, spec.with(without_partials(spec.placements()), spec.order())});
  }

  DTensor moved(const DTensor& x) const {
    return apart(x, x.spec()->with(placements_of(event_.at("to"))));
  }

  DTensor moved_back(const DTensor& gradient) const {
    const DTensorSpec* forward = gradient.spec()->with(placements_of(event_.at("forward_from")));
    return apart(gradient, gradient_target(gradient.spec(), forward),
                 {.direction = Direction::kBackward});
  }

  DTensor labelled(const DTensor& local, const Json& placements) const {
    const Json& out = event_.at("out").at(0);
    const MeshLayout* layout = mesh_of_value(out);
    const Placements label = placements_of(placements);
    TensorMeta meta = global_meta(*layout, label, local.local().meta());
    // Uneven pieces do not show the size of the whole.
    const Dims shape = dims_of(out.at("shape"));
    if (meta.shape != shape) meta = contiguous_meta(shape, local.dtype());
    return one(FromLocalEvent{local, layout->arena().spec(layout, label, meta)});
  }

  DTensor unlabelled(const DTensor& gradient) const {
    const DTensorSpec* forward = gradient.spec()->with(placements_of(event_.at("forward_to")));
    const DTensorSpec* target = gradient_target(gradient.spec(), forward);
    target = target->with(without_partials(target->placements()), target->order());
    return local_of(
        one(RedistributeEvent{gradient, target, {.direction = Direction::kBackward}, {}}));
  }

  RankContext& rank_;
  const MeshLayout* mesh_;
  const std::vector<DTensor>& values_;
  const Json& event_;
};

}  // namespace

const MeshLayout* recorded_mesh(Arena& arena, const Json& program) {
  MeshLayout::Init init;
  init.shape = dims_of(program.at("mesh"));
  init.names = program.at("mesh_dim_names").get<std::vector<std::string>>();
  return arena.layout(std::move(init));
}

const MeshLayout* recorded_layout(const Json& value, const MeshLayout* mesh, std::int64_t rank) {
  if (!value.contains("mesh")) return mesh;
  const auto names = value.at("mesh").get<std::vector<std::string>>();
  return slice_layout(mesh, names, *mesh->coordinate_of(rank));
}

std::size_t recorded_values(const Json& program) {
  return integer_of<std::size_t>(program.at("n_values"));
}

const OpRow* fact_row(const Json& event) {
  if (!event.contains("op")) return nullptr;
  return all_ops().find(row_name(event.at("op").get<std::string>()));
}

ResolvedCall recorded_call(const OpRow& row, const GivenArguments& given) {
  bool number = false;
  for (std::size_t i = 0; i < std::min(given.positional.size(), row.op.arguments.size()); ++i) {
    number = number || (given.positional[i].is_scalar() && row.op.arguments[i].type.is_tensor());
  }
  ResolvedCall call =
      number ? resolve_call(all_ops(), bare_name(row.op), given)
             : ResolvedCall{&row, bind_arguments(row, given.positional, given.keywords)};
  wrap_numbers(*call.row, call.args);
  return call;
}

bool of_loss_parallel(const Json& event) {
  if (event.at("k") != "op" || !event.value("loss_parallel", false)) return false;
  const std::string op = event.at("op").get<std::string>();
  for (const char* name :
       {"_log_softmax", "nll_loss_forward", "nll_loss_backward", "_log_softmax_backward_data"}) {
    if (op == fmt::format("aten.{}.default", name)) return true;
  }
  return false;
}

std::vector<double> recorded_numbers(const Json& data) {
  std::vector<double> numbers;
  append_numbers(data, numbers);
  return numbers;
}

std::vector<double> recorded_elements(const Json& event, DType dtype, std::int64_t count) {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 24;  // a damaged line may have more
  if (count > kMostElements) {
    fail(ErrorKind::kValue, Fix{"record it on smaller tensors"}, "a value of {} elements", count);
  }
  if (event.contains("data")) return recorded_numbers(event.at("data"));
  if (event.contains("fill")) {
    return equal_or_formula(elements_of(event, dtype, 0, 1).at(0), dtype, count);
  }
  return std::vector<double>(static_cast<std::size_t>(is_complex(dtype) ? 2 * count : count));
}

const Json& keywords_of(const Json& event) {
  static const Json kNone = Json::object();
  const auto found = event.find("kwargs");
  return found == event.end() ? kNone : *found;
}

Results run_recorded(const Json& event, const MeshLayout* mesh,
                     const std::vector<DTensor>& values) {
  const GradModeScope below_autograd(false);
  return PlayedFact(event, mesh, values).run();
}

void keep_recorded(const Json& event, const Results& results, std::vector<DTensor>& values) {
  const auto keep_one = [&](const Json& out, std::size_t index) {
    if (!out.is_object() || !out.contains("v")) return;
    DTensor& kept = values.at(integer_of<std::size_t>(out.at("v")));
    if (kept.defined() || index >= results.size() || !results[index].is_tensor()) return;
    kept = results[index].tensor();
  };
  if (!event.contains("out")) return keep_one(event, 0);
  std::size_t index = 0;
  for (const Json& out : event.at("out")) keep_one(out, index++);
}

}  // namespace shardlab
