// Every op with one input of another shape or dtype than its sample has: the call is answered or
// refused with an Error, and reads nothing outside of its inputs, which the address sanitizer sees.
// Gradients have the shape and dtype of their tensors. This test does not ask whether an answer is
// right.
#include <doctest/doctest.h>

#include <map>

#include "base/error.h"
#include "sim/proof/sample_call.h"
#include "tests/property/ops_case.h"
#include "tests/unit/dispatch/op_mesh.h"

namespace shardlab {
namespace {

using namespace test;

/// The change of an input. Elements keep their values where they can: indices stay indices.
struct Change {
  std::string name;
  std::function<DTensor(const DTensor&)> make;
};

DTensor resized(const DTensor& x, std::int64_t dim, std::int64_t size) {
  const std::int64_t old = x.shape()[static_cast<std::size_t>(dim)];
  if (size <= old) return ops().one("slice.Tensor", {x, dim, 0, size});
  const DTensor more = ops().one("slice.Tensor", {x, dim, 0, size - old});
  return ops().one("cat", {ArgumentList{x, more}, dim});
}

std::vector<Change> changes_of(const Dims& shape, DType dtype) {
  std::vector<Change> changes;
  const auto ndim = static_cast<std::int64_t>(shape.size());
  for (std::int64_t dim = 0; dim < ndim; ++dim) {
    const std::int64_t old = shape[static_cast<std::size_t>(dim)];
    for (const std::int64_t size : {std::int64_t{0}, old - 1, old + 1, 2 * old}) {
      if (size < 0 || size == old) continue;
      changes.push_back({fmt::format("dim {} is {}", dim, size),
                         [=](const DTensor& x) { return resized(x, dim, size); }});
    }
    if (old == 0) continue;
    changes.push_back({fmt::format("without dim {}", dim), [=](const DTensor& x) {
                         return ops().one("select.int", {x, dim, 0});
                       }});
  }
  changes.push_back({"a dim in front", [](const DTensor& x) {
                       return ops().one("unsqueeze", {x, 0});
                     }});
  changes.push_back({"a dim of 2 behind", [](const DTensor& x) {
                       return ops().one("stack", {ArgumentList{x, x}, -1});
                     }});
  for (const DType other : {DType::kF64, DType::kBF16, DType::kI64, DType::kI32, DType::kU8,
                            DType::kBool, DType::kC64}) {
    if (other == dtype) continue;
    changes.push_back({fmt::format("as {}", to_string(other)), [=](const DTensor& x) {
                         return ops().one("_to_copy", {x, Argument(other)});
                       }});
  }
  return changes;
}

std::vector<DTensor> inputs_of(const OpSample& sample, std::uint64_t seed) {
  std::vector<DTensor> inputs;
  for (std::size_t slot = 0; slot < sample.inputs.size(); ++slot) {
    inputs.emplace_back(sample_input(sample, slot, seed, DType::kF32));
  }
  return inputs;
}

DTensor gradient_of(const DTensor& result) {
  return DTensor(sample_gradient(result.shape(), 1, result.dtype()));
}

/// Calls the sample, with gradients where it has some; the fault in these, or empty.
std::string called(const OpSample& sample, const OpRow& row, const std::vector<DTensor>& inputs) {
  if (sample.calls) {
    sample.calls({inputs});
    return "";
  }
  call_sample(sample, inputs, {}, 0, nullptr);
  if (!has_gradient(row)) return "";
  std::vector<DTensor> given, leaves;
  for (std::size_t slot = 0; slot < inputs.size(); ++slot) {
    given.emplace_back(inputs[slot].local());
    const Fill fill = sample.inputs[slot].fill;
    const bool real = fill == Fill::kReal || fill == Fill::kUnit;
    if (!real || !is_floating(inputs[slot].dtype()) || is_out(sample, row, slot)) continue;
    require_grad(given.back());
    leaves.push_back(given.back());
  }
  const SampleValues out = call_sample(sample, given, leaves, 0, gradient_of);
  for (std::size_t i = 0; out.results + i < out.values.size(); ++i) {
    const DTensor &grad = out.values[out.results + i], &leaf = leaves[i];
    if (!grad.defined() || (grad.shape() == leaf.shape() && grad.dtype() == leaf.dtype())) continue;
    return fmt::format("the gradient is {}, its tensor is {}", type_string(grad),
                       type_string(leaf));
  }
  return "";
}

TEST_CASE("an op whose input has another shape or dtype answers or refuses") {
  OpsSetting setting;
  OpMesh mesh(setting.registry, {1});
  std::map<std::string, std::string> faults;
  std::size_t answered = 0, refused = 0;
  mesh.run([&](RankContext&) {
    std::uint64_t seed = 0;
    for (const OpSample& sample : all_samples()) {
      const std::vector<DTensor> inputs = inputs_of(sample, ++seed);
      for (std::size_t slot = 0; slot < inputs.size(); ++slot) {
        for (const Change& change : changes_of(inputs[slot].shape(), inputs[slot].dtype())) {
          const std::string name = fmt::format("{}, input {}, {}", sample.op, slot, change.name);
          std::vector<DTensor> changed = inputs;
          try {
            changed[slot] = change.make(inputs[slot]);
            const std::string fault = called(sample, setting.registry.at(sample.op), changed);
            if (!fault.empty()) faults.emplace(name, fault);
            ++answered;
          } catch (const Error&) {
            ++refused;
          } catch (const std::exception& exception) {
            faults.emplace(name, exception.what());
          }
        }
      }
    }
  });
  for (const auto& [name, fault] : faults) FAIL_CHECK(name << ": " << fault);
  CHECK(answered > 10'000);
  CHECK(refused > 10'000);
  MESSAGE(answered << " answered, " << refused << " refused");
}

}  // namespace
}  // namespace shardlab
