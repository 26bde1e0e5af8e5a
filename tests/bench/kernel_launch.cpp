// Tensors with contents that are the same in every run, by a linear congruence.
#include "tests/bench/kernel_launch.h"

#include "base/rank_context.h"
#include "tests/bench/kernel_floors.h"

namespace shardlab {

Device& device() { return *current_rank().device; }

Tensor numbers(const Dims& shape, DType dtype) {
  Tensor values = empty(device(), shape, DType::kF32);
  auto* data = values.mutable_data<float>();
  std::uint64_t state = 1;
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    data[i] = static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-30f;
  }
  if (dtype == DType::kF32) return values;
  Tensor converted = empty(device(), shape, dtype);
  const LocalArg args[] = {values};
  device().run({.kernel = KernelId::kConvert, .args = args, .outputs = {&converted, 1}});
  return converted;
}

Tensor indices(const Dims& shape, std::int64_t most) {
  Tensor places = empty(device(), shape, DType::kI64);
  auto* data = places.mutable_data<std::int64_t>();
  std::uint64_t state = 7;
  for (std::int64_t i = 0; i < places.numel(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    data[i] = static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(most));
  }
  return places;
}

Tensor turned(const Tensor& matrix) {
  return matrix.as_view(
      {{matrix.size(1), matrix.size(0)}, {matrix.stride()[1], matrix.stride()[0]}, matrix.dtype()},
      0);
}

std::vector<Tensor> tensors_of(const std::vector<LocalArg>& args) {
  std::vector<Tensor> tensors;
  for (const LocalArg& arg : args) {
    if (const auto* tensor = std::get_if<Tensor>(&arg)) tensors.push_back(*tensor);
  }
  return tensors;
}

void Launch::operator()() const {
  device().run({.kernel = kernel, .args = args, .outputs = outputs});
}

Tensor output(const Dims& shape, DType dtype) {
  Tensor made = empty(device(), shape, dtype);
  const LocalArg args[] = {made};
  device().run({.kernel = KernelId::kZeros, .args = args, .outputs = {&made, 1}});
  return made;
}

KernelPair against_memory(Launch launch) {
  TimedWork floor = memory_floor(tensors_of(launch.args), launch.outputs[0]);
  return {std::move(launch), std::move(floor)};
}

}  // namespace shardlab
