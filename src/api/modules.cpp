// A module is a list of addresses of its parameters and one of its parts; all else is a walk over
// both. Layers call the functions of tensor_ops.h.
#include "api/modules.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "api/factories.h"
#include "autograd/at_place.h"
#include "autograd/grad_mode.h"
#include "autograd/tape.h"
#include "base/error.h"
#include "base/text.h"
#include "mesh/type_string.h"

namespace shardlab {

void Module::check_name(const std::string& name) const {
  const bool taken =
      std::ranges::find(own_, name, &Slot::name) != own_.end() ||
      std::ranges::any_of(parts_, [&](const auto& part) { return part.first == name; });
  if (!name.empty() && name.find('.') == std::string::npos && !taken) return;
  fail(Fix{"give each parameter and part a name of its own, without a dot"},
       "a module: the name '{}' is empty, has a dot or is taken", name);
}

void Module::add(std::string name, DTensor& parameter) {
  check_name(name);
  own_.push_back({std::move(name), &parameter});
}

void Module::add(std::string name, Module& part) {
  check_name(name);
  parts_.emplace_back(std::move(name), &part);
}

std::vector<Module::Slot> Module::slots(const std::string& prefix) const {
  std::vector<Slot> found;
  for (const Slot& slot : own_) {
    if (slot.parameter->defined()) found.push_back({prefix + slot.name, slot.parameter});
  }
  for (const auto& [name, part] : parts_) {
    for (Slot& slot : part->slots(prefix + name + ".")) found.push_back(std::move(slot));
  }
  return found;
}

std::vector<std::pair<std::string, DTensor>> Module::named_parameters() const {
  std::vector<std::pair<std::string, DTensor>> named;
  std::set<const DTensorImpl*> seen;
  for (Slot& slot : slots("")) {
    if (!seen.insert(slot.parameter->impl()).second) continue;
    named.emplace_back(std::move(slot.name), *slot.parameter);
  }
  return named;
}

std::vector<DTensor> Module::parameters() const {
  std::vector<DTensor> all;
  for (auto& [name, parameter] : named_parameters()) all.push_back(std::move(parameter));
  return all;
}

void Module::zero_grad() const {
  for (const DTensor& parameter : parameters()) drop_grad(parameter);
}

void Module::replace(const NamedTensors& parameters, SourceLine place) {
  const PlaceScope scope(place);
  const std::vector<Slot> here = slots("");
  for (const auto& [name, value] : parameters) {
    const auto slot = std::ranges::find(here, name, &Slot::name);
    if (slot == here.end()) {
      std::vector<std::string> names;
      for (const Slot& one : here) names.push_back(one.name);
      fail(Fix{suggest(name, names)}, "the module has no parameter '{}'", name);
    }
    if (value.shape() != slot->parameter->shape()) {
      fail(Fix{"give a value of the parameter's shape"},
           "the parameter '{}' is {}, its new value {}", name, type_string(*slot->parameter),
           type_string(value));
    }
  }
  // A parameter that is registered twice stays one.
  std::map<const DTensorImpl*, DTensor> leaves;
  for (const Slot& slot : here) {
    const auto given = parameters.find(slot.name);
    if (given != parameters.end()) {
      leaves[slot.parameter->impl()] = given->second.detach().requires_grad_();
    }
  }
  for (const Slot& slot : here) {
    const auto leaf = leaves.find(slot.parameter->impl());
    if (leaf != leaves.end()) *slot.parameter = leaf->second;
  }
}

void shard(Module& module, const MeshLayout* mesh, const std::vector<ShardPattern>& patterns,
           SourceLine place) {
  const PlaceScope scope(place);
  const NoGradGuard guard;
  const auto named = module.named_parameters();
  module.replace(shard(NamedTensors(named.begin(), named.end()), mesh, patterns));
}

namespace {

DTensor drawn_between(double bound, const Dims& shape) {
  const NoGradGuard guard;
  return ((rand(shape) * 2 - 1) * bound).requires_grad_();
}

}  // namespace

Linear::Linear(std::int64_t in, std::int64_t out, Bias with) {
  const double bound = in > 0 ? 1 / std::sqrt(static_cast<double>(in)) : 0;
  weight = drawn_between(bound, {out, in});
  if (with == Bias::kYes) bias = drawn_between(bound, {out});
  add("weight", weight);
  add("bias", bias);
}

DTensor Linear::forward(Operand x) const { return linear(x, weight, bias); }

Embedding::Embedding(std::int64_t count, std::int64_t width)
    : weight(randn({count, width}).requires_grad_()) {
  add("weight", weight);
}

DTensor Embedding::forward(Operand indices) const { return embedding(indices, weight); }

LayerNorm::LayerNorm(std::int64_t width, double eps)
    : weight(ones({width}).requires_grad_()), bias(zeros({width}).requires_grad_()), eps_(eps) {
  add("weight", weight);
  add("bias", bias);
}

DTensor LayerNorm::forward(Operand x) const {
  return layer_norm(x, weight.shape(), {.weight = weight, .bias = bias, .eps = eps_});
}

RmsNorm::RmsNorm(std::int64_t width, std::optional<double> eps)
    : weight(ones({width}).requires_grad_()), eps_(eps) {
  add("weight", weight);
}

DTensor RmsNorm::forward(Operand x) const {
  return rms_norm(x, weight.shape(), {.weight = weight, .bias = {}, .eps = eps_});
}

}  // namespace shardlab
