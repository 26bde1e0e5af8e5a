// Numbers are multiples of 1/64, so that every dtype holds them and short sums have no rounding.
#include "sim/proof/sample_call.h"

#include <algorithm>
#include <random>
#include <span>

#include "autograd/autograd.h"
#include "base/rank_context.h"
#include "schema/argument.h"
#include "schema/op_row.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

constexpr std::uint64_t kPrime = 97;  // seeds and slots together are one number

Tensor drawn_floats(const Dims& shape, Fill fill, std::uint64_t seed, DType dtype) {
  std::mt19937_64 random(seed);
  const Tensor tensor = empty(*current_rank().device, shape, dtype);
  std::vector<double> values;
  const std::int64_t numbers = tensor.numel() * (is_complex(dtype) ? 2 : 1);
  for (std::int64_t i = 0; i < numbers; ++i) {
    const double fraction = static_cast<double>(random() % 64) / 64;
    values.push_back(fill == Fill::kUnit ? 0.125 + 0.75 * fraction : 4 * fraction - 2);
  }
  write_doubles(tensor, values);
  return tensor;
}

bool is_written(const SchemaArgument& argument) { return argument.alias.write; }

// Tensors that the op wrote and does not return.
void add_written(std::vector<DTensor>& values, const OpRow& row, const Arguments& args) {
  const std::vector<DTensor> results = values;
  const auto add = [&](const DTensor& written) {
    const auto same = [&](const DTensor& result) { return result.impl() == written.impl(); };
    if (std::ranges::none_of(results, same)) values.push_back(written);
  };
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!is_written(row.op.arguments[i])) continue;
    const std::span written(&args[i], 1);
    for_each_tensor(written, add);
  }
}

}  // namespace

Tensor sample_input(const OpSample& sample, std::size_t slot, std::uint64_t seed, DType floats) {
  const SampleInput& input = sample.inputs[slot];
  if (input.given) {
    return input.given->make(floats == DType::kF64 ? Precision::kReference : Precision::kDeclared);
  }
  const std::uint64_t own = seed * kPrime + slot;
  if (input.fill == Fill::kReal || input.fill == Fill::kUnit) {
    return drawn_floats(input.shape, input.fill, own, floats);
  }
  const bool truth = input.fill == Fill::kBool;
  const Tensor tensor =
      empty(*current_rank().device, input.shape, truth ? DType::kBool : DType::kI64);
  std::mt19937_64 random(own);
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    const auto limit = static_cast<std::uint64_t>(truth ? 2 : input.limit);
    const std::int64_t least = input.fill == Fill::kCount ? 1 : 0;
    values.push_back(least + static_cast<std::int64_t>(random() % limit));
  }
  write_integers(tensor, values);
  return tensor;
}

Tensor sample_gradient(const Dims& shape, std::uint64_t seed, DType dtype) {
  return drawn_floats(shape, Fill::kReal, seed * kPrime + kPrime - 1, dtype);
}

Argument filled_in(const Argument& argument,
                   const std::function<Argument(std::size_t number)>& value) {
  if (argument.is_list()) {
    ArgumentList list;
    for (const Argument& element : argument.list()) list.push_back(filled_in(element, value));
    return list;
  }
  if (!argument.is_string() || !argument.string().starts_with('$')) return argument;
  return value(std::stoul(argument.string().substr(1)));
}

Arguments filled_in(const Arguments& args, const std::vector<DTensor>& inputs) {
  const auto input = [&](std::size_t slot) { return Argument(inputs.at(slot)); };
  Arguments filled;
  for (const Argument& argument : args) filled.push_back(filled_in(argument, input));
  return filled;
}

std::vector<DTensor> tensors_of(const Results& results) {
  std::vector<DTensor> tensors;
  for (const Argument& result : results) {
    if (result.is_tensor()) tensors.push_back(result.tensor());
    if (!result.is_list()) continue;
    for (const Argument& element : result.list()) tensors.push_back(element.tensor());
  }
  return tensors;
}

bool is_out(const OpSample& sample, const OpRow& row, std::size_t slot) {
  bool found = false;
  for (std::size_t i = 0; i < sample.args.size(); ++i) {
    if (!row.op.arguments[i].is_out) continue;
    filled_in(sample.args[i], [&](std::size_t number) {
      found = found || number == slot;
      return Argument();
    });
  }
  return found;
}

bool has_gradient(const OpRow& row) {
  if (row.gradient || (row.base != nullptr && row.base->gradient)) return true;
  return row.parts() != nullptr && std::holds_alternative<NoRule>(row.rule);
}

SampleValues call_sample(const OpSample& sample, const std::vector<DTensor>& inputs,
                         const std::vector<DTensor>& leaves, std::size_t root,
                         const GradientOf& gradient) {
  Calls& calls = recording_calls();
  const OpRow& row = calls.find(sample.op);
  std::vector<DTensor> given = inputs;
  if (std::ranges::any_of(row.op.arguments, is_written)) {
    for (DTensor& input : given) input = calls.one("aten::clone", {input});
  }
  const Arguments args = filled_in(sample.args, given);
  SampleValues out;
  out.values = tensors_of(calls(sample.op, args));
  std::vector<DTensor> roots;
  for (const DTensor& result : out.values) {
    if (result.defined() && result.requires_grad()) roots.push_back(result);
  }
  add_written(out.values, row, args);
  out.results = out.values.size();
  out.roots = roots.size();
  if (roots.empty() || leaves.empty()) return out;
  const DTensor& chosen = roots[root % roots.size()];
  for (DTensor& grad : gradients(chosen, leaves, gradient(chosen))) {
    out.values.push_back(std::move(grad));
  }
  return out;
}

}  // namespace shardlab
