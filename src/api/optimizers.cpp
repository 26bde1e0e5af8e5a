// One call for all parameters of a mesh: an op takes lists of tensors of one mesh, and plain ones.
#include "api/optimizers.h"

#include <cmath>

#include "api/collectives.h"
#include "api/factories.h"
#include "api/tensor_ops.h"
#include "autograd/at_place.h"
#include "autograd/autograd.h"
#include "autograd/grad_mode.h"
#include "autograd/program.h"
#include "base/error.h"
#include "mesh/type_string.h"
#include "schema/calls.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

void check_parameters(std::string_view optimizer, const std::vector<DTensor>& parameters) {
  if (parameters.empty()) {
    fail(Fix{"pass the leaves that are trained"}, "{}: the list of parameters is empty", optimizer);
  }
  for (const DTensor& parameter : parameters) {
    if (!parameter.requires_grad()) {
      fail(Fix{"x.requires_grad_() before"}, "{}: a parameter, {}, requires no gradient", optimizer,
           type_string(parameter));
    }
    if (is_leaf(parameter)) continue;
    fail(Fix{"train a leaf: x = x.detach().requires_grad_(), where x is made, begins one"},
         "{}: a parameter, {}, is the result of an op, which keeps no gradient", optimizer,
         type_string(parameter));
  }
}

/// Numbers of parameters with a gradient, those of a mesh together, in order of the first of each.
std::vector<std::vector<std::size_t>> with_gradient(const std::vector<DTensor>& parameters) {
  std::vector<std::vector<std::size_t>> groups;
  std::vector<const MeshLayout*> meshes;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!grad_of(parameters[i]).defined()) continue;
    const DTensorSpec* spec = parameters[i].spec();
    const MeshLayout* mesh = spec == nullptr ? nullptr : spec->layout();
    std::size_t group = 0;
    while (group < meshes.size() && meshes[group] != mesh) ++group;
    if (group == meshes.size()) {
      meshes.push_back(mesh);
      groups.emplace_back();
    }
    groups[group].push_back(i);
  }
  return groups;
}

ArgumentList listed(const std::vector<std::size_t>& numbers, auto of) {
  ArgumentList list;
  for (const std::size_t i : numbers) list.push_back(of(i));
  return list;
}

ArgumentList tensors(const Results& results) { return results.at(0).list(); }

void drop_grads(const std::vector<DTensor>& parameters) {
  for (const DTensor& parameter : parameters) drop_grad(parameter);
}

/// 0, on every rank of the parameter's mesh.
DTensor zero_count(const DTensor& parameter) {
  return zeros({}, {.mesh = parameter.distributed() ? parameter.spec()->layout() : nullptr});
}

}  // namespace

Sgd::Sgd(std::vector<DTensor> parameters, const SgdOptions& options)
    : parameters_(std::move(parameters)), options_(options), momenta_(parameters_.size()) {
  check_parameters("SGD", parameters_);
  if (options.nesterov && (options.momentum <= 0 || options.dampening != 0)) {
    fail(Fix{"give a momentum above 0 and a dampening of 0"},
         "SGD: nesterov takes a momentum and no dampening; they are {} and {}", options.momentum,
         options.dampening);
  }
}

void Sgd::step(SourceLine place) {
  const PlaceScope scope(place);
  const NoGradGuard off;
  Calls& calls = program_calls();
  for (const std::vector<std::size_t>& group : with_gradient(parameters_)) {
    const ArgumentList weights = listed(group, [&](std::size_t i) { return parameters_[i]; });
    ArgumentList grads = listed(group, [&](std::size_t i) { return grad_of(parameters_[i]); });
    if (options_.maximize) grads = tensors(calls("aten::_foreach_neg", {grads}));
    if (options_.weight_decay != 0) {
      grads = tensors(calls("aten::_foreach_add.List", {grads, weights, options_.weight_decay}));
    }
    if (options_.momentum != 0) {
      for (std::size_t k = 0; k < group.size(); ++k) {
        DTensor& momentum = momenta_[group[k]];
        const DTensor& grad = grads[k].tensor();
        if (momentum.defined()) {
          calls("aten::mul_.Scalar", {momentum, options_.momentum});
          calls("aten::add_.Tensor", {momentum, grad, 1 - options_.dampening});
        } else {
          momentum = calls.one("aten::clone", {grad});
          if (momentum.distributed()) {
            momentum = calls.redistribute(momentum, parameters_[group[k]].spec()->placements());
          }
        }
      }
      const ArgumentList momenta = listed(group, [&](std::size_t i) { return momenta_[i]; });
      grads = options_.nesterov
                  ? tensors(calls("aten::_foreach_add.List", {grads, momenta, options_.momentum}))
                  : momenta;
    }
    calls("aten::_foreach_add_.List", {weights, grads, -options_.lr});
  }
}

void Sgd::zero_grad() { drop_grads(parameters_); }

Adam::Adam(std::vector<DTensor> parameters, const AdamOptions& options, WeightDecay decay)
    : parameters_(std::move(parameters)),
      options_(options),
      decay_(decay),
      states_(parameters_.size()) {
  check_parameters(decay == WeightDecay::kDecoupled ? "AdamW" : "Adam", parameters_);
}

void Adam::step(SourceLine place) {
  const PlaceScope scope(place);
  const NoGradGuard off;
  Calls& calls = program_calls();
  const bool decoupled = decay_ == WeightDecay::kDecoupled;
  const char* op = decoupled ? "aten::_fused_adamw_" : "aten::_fused_adam_";
  for (const std::vector<std::size_t>& group : with_gradient(parameters_)) {
    for (const std::size_t i : group) {
      State& state = states_[i];
      if (state.mean.defined()) continue;
      state.mean = calls.one("aten::zeros_like", {parameters_[i]});
      state.square = calls.one("aten::zeros_like", {parameters_[i]});
      if (options_.amsgrad) state.largest_square = calls.one("aten::zeros_like", {parameters_[i]});
      state.count = zero_count(parameters_[i]);
    }
    ArgumentList weights, grads, means, squares, largest, counts;
    for (const std::size_t i : group) {
      const State& state = states_[i];
      calls("aten::add_.Scalar", {state.count, 1.0});
      weights.emplace_back(parameters_[i]);
      grads.emplace_back(grad_of(parameters_[i]));
      means.emplace_back(state.mean);
      squares.emplace_back(state.square);
      counts.emplace_back(state.count);
      if (options_.amsgrad) largest.emplace_back(state.largest_square);
    }
    Arguments args;
    for (ArgumentList* list : {&weights, &grads, &means, &squares, &largest, &counts}) {
      args.emplace_back(std::move(*list));
    }
    const double decay = options_.weight_decay.value_or(decoupled ? 0.01 : 0.0);
    for (const double number : {options_.lr, options_.beta1, options_.beta2, decay, options_.eps}) {
      args.emplace_back(number);
    }
    args.emplace_back(options_.amsgrad);
    args.emplace_back(options_.maximize);
    const Arguments defaults = calls.find(op).defaults();
    args.insert(args.end(), defaults.end() - 2, defaults.end());  // grad_scale, found_inf
    calls(op, std::move(args));
  }
}

void Adam::zero_grad() { drop_grads(parameters_); }

double clip_grad_norm_(const std::vector<DTensor>& parameters, double most, ProcessGroup* group,
                       SourceLine place) {
  return at_place(place, [&] {
    const NoGradGuard guard;
    std::vector<DTensor> gradients;
    double whole = 0;
    DTensor parts = full({}, 0.0, DType::kF64);  // of plain gradients
    for (const DTensor& parameter : parameters) {
      const DTensor gradient = parameter.grad();
      if (!gradient.defined()) continue;
      gradients.push_back(gradient);
      const DTensor squares = sum(pow(to(gradient, DType::kF64), 2));
      if (gradient.distributed()) {
        whole += squares.item().to_double();
      } else {
        parts += squares;
      }
    }
    if (group != nullptr) parts = all_reduce(parts, ReduceOp::kSum, *group);
    const double norm = std::sqrt(whole + parts.item().to_double());
    constexpr double kOfTorch = 1e-6;
    const double scale = most / (norm + kOfTorch);
    for (const DTensor& gradient : gradients) {
      if (scale < 1) gradient.mul_(scale);
    }
    return norm;
  });
}

}  // namespace shardlab
