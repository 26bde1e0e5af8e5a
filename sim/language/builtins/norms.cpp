// Gradients clipped by the norm of all of them, as torch.nn.utils does. Norms of one mesh are
// combined there; of several, each is made whole on its own and the total is a plain tensor.
#include "autograd/grad_mode.h"
#include "autograd/tape.h"
#include "base/error.h"
#include "sim/language/run/mesh_value.h"

namespace shardlab {

namespace {

std::vector<DTensor> tensor_list(const Parameters& given, std::string_view name) {
  const Value& value = given[name];
  if (value.is_tensor()) return {value.as<DTensor>()};
  std::vector<DTensor> tensors;
  const Values none, &items = value.is_sequence() ? items_of(value) : none;
  for (const Value& item : items) {
    if (item.is_tensor()) tensors.push_back(item.as<DTensor>());
  }
  if (value.is_sequence() && tensors.size() == items.size()) return tensors;
  fail(Fix{"give a list of tensors: [w, b]"}, "{} is {}, not a list of tensors", name,
       a_kind(value));
}

const MeshLayout* mesh_of_tensor(const DTensor& x) {
  return x.distributed() ? x.spec()->layout() : nullptr;
}

DTensor whole(const DTensor& x) { return x.distributed() ? full_tensor(x) : x; }

double norm_type(const Parameters& given) {
  if (!given.has("norm_type")) return 2;
  const auto* text = given["norm_type"].get<std::string>();
  return text != nullptr && *text == "inf" ? HUGE_VAL : given.number("norm_type");
}

DTensor total_norm(Interpreter& in, const Parameters& given, const std::vector<DTensor>& tensors) {
  const double order = norm_type(given);
  Values norms;
  bool one_mesh = true;
  for (const DTensor& x : tensors) {
    norms.emplace_back(in.tensor_op("linalg_vector_norm", {x, order}));
    one_mesh = one_mesh && mesh_of_tensor(x) == mesh_of_tensor(tensors[0]);
  }
  if (norms.empty()) return in.tensor_op("zeros", {make_list({})});
  for (Value& norm : norms) {
    if (!one_mesh) norm = whole(norm.as<DTensor>());
  }
  const DTensor total = in.tensor_op("linalg_vector_norm",
                                     {in.tensor_op("stack", {make_list(std::move(norms))}), order});
  if (!given.flag_or("error_if_nonfinite", false)) return total;
  if (in.truth(in.tensor_op("isfinite", {whole(total)}))) return total;
  fail(ErrorKind::kRuntime, Fix{"leave error_if_nonfinite out, and gradients become nan"},
       "the total norm of the gradients is not finite, so that it cannot clip them");
}

// Scales all gradients, by 1 at most, as torch does. A number on another mesh is made whole first.
void scale(Interpreter& in, const std::vector<DTensor>& grads, double most, const DTensor& norm) {
  const DTensor factor = in.tensor_op(
      "clamp",
      {in.tensor_op("mul", {in.tensor_op("reciprocal", {in.tensor_op("add", {norm, 1e-6})}), most}),
       Value(), 1.0});
  DTensor plain;
  for (const DTensor& grad : grads) {
    const bool own = mesh_of_tensor(grad) == mesh_of_tensor(factor) || !factor.distributed();
    if (!own && !plain.defined()) plain = whole(factor);
    in.tensor_op("mul_", {grad, own ? factor : plain});
  }
}

std::vector<DTensor> gradients_of(const std::vector<DTensor>& parameters) {
  std::vector<DTensor> grads;
  for (const DTensor& parameter : parameters) {
    if (DTensor grad = grad_of(parameter); grad.defined()) grads.push_back(std::move(grad));
  }
  return grads;
}

Value run_get_total_norm(Interpreter& in, const Value*, const Parameters& given) {
  return total_norm(in, given, tensor_list(given, "tensors"));
}

Value run_clip_with_norm(Interpreter& in, const Value*, const Parameters& given) {
  const NoGradGuard without;
  scale(in, gradients_of(tensor_list(given, "parameters")), given.number("max_norm"),
        given.tensor("total_norm"));
  return {};
}

Value run_clip_grad_norm(Interpreter& in, const Value*, const Parameters& given) {
  const NoGradGuard without;
  const std::vector<DTensor> grads = gradients_of(tensor_list(given, "parameters"));
  const DTensor total = total_norm(in, given, grads);
  scale(in, grads, given.number("max_norm"), total);
  return total;
}

}  // namespace

BuiltinTable norm_builtins() {
  static const Builtin kTable[] = {
      {"clip_grad_norm_", "(parameters, max_norm, norm_type=, error_if_nonfinite=, foreach=)",
       run_clip_grad_norm},
      {"clip_grads_with_norm_", "(parameters, max_norm, total_norm, foreach=)", run_clip_with_norm},
      {"get_total_norm", "(tensors, norm_type=, error_if_nonfinite=, foreach=)",
       run_get_total_norm}};
  return kTable;
}

}  // namespace shardlab
