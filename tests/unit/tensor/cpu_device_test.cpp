#include "tensor/cpu_device.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "base/error.h"

using namespace shardlab;

namespace {

std::vector<std::int32_t> read_all(const Tensor& tensor) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(tensor.numel()));
  tensor.device()->read(tensor, values.data());
  return values;
}

Tensor counting_i32(Device& device, const Dims& shape) {
  Tensor tensor = empty(device, shape, DType::kI32);
  std::vector<std::int32_t> values(static_cast<std::size_t>(tensor.numel()));
  std::iota(values.begin(), values.end(), 0);
  device.write(tensor, values.data());
  return tensor;
}

// Element by element: the expected result of a copy of a strided view.
std::vector<std::int32_t> elementwise(const Tensor& tensor) {
  std::vector<std::int32_t> values;
  Dims index(tensor.shape().size());
  for (std::int64_t left = tensor.numel(); left > 0; --left) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < index.size(); ++d) at += index[d] * tensor.stride()[d];
    values.push_back(tensor.data<std::int32_t>()[at]);
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < tensor.shape()[d]) break;
      index[d] = 0;
    }
  }
  return values;
}

}  // namespace

TEST_CASE("memory is aligned to 64 bytes, also when it is empty") {
  const auto device = make_cpu_device({});
  for (const std::size_t size : {0, 1, 63, 64, 4096}) {
    const BufferRef buffer = device->allocate(size);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer->data()) % 64 == 0);
    CHECK(buffer->size_bytes() == size);
    CHECK(buffer->device() == device.get());
  }
}

TEST_CASE("held and peak bytes are counted") {
  const auto device = make_cpu_device({});
  {
    const BufferRef first = device->allocate(100);
    const BufferRef second = device->allocate(28);
    CHECK(device->memory().held_bytes == 128);
  }
  CHECK(device->memory().held_bytes == 0);
  CHECK(device->memory().peak_bytes == 128);
}

TEST_CASE("memory that cannot be had is a Runtime error with the size") {
  const auto device = make_cpu_device({});
  try {
    device->allocate(std::numeric_limits<std::size_t>::max());
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kRuntime);
    CHECK(error.summary() ==
          "device cpu cannot allocate 18446744073709551615 bytes; 0 bytes are held");
  }
}

TEST_CASE("a device with a limit allocates no more, and again when something is given back") {
  const auto device = make_cpu_device({}, 1000000);
  BufferRef first = device->allocate(600000);
  CHECK_THROWS_WITH_AS(device->allocate(600000), doctest::Contains("cannot allocate 600000 bytes"),
                       Error);
  first = {};
  CHECK(device->allocate(600000)->size_bytes() == 600000);
}

TEST_CASE("a tensor whose bytes cannot be counted is refused like one that is too large") {
  const auto device = make_cpu_device({});
  constexpr std::int64_t kLarge = std::int64_t{1} << 62;
  for (const TensorMeta& meta :
       {contiguous_meta(Dims{kLarge}, DType::kF32), contiguous_meta(Dims{kLarge, 4}, DType::kI8),
        TensorMeta{{3, 3}, {kLarge, 1}, DType::kI8},
        contiguous_meta(Dims{std::numeric_limits<std::int64_t>::min()}, DType::kI8)}) {
    try {
      empty(*device, meta);
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kRuntime);
      CHECK(error.summary() ==
            "device cpu cannot allocate 9223372036854775807 bytes; 0 bytes are held");
    }
  }
}

TEST_CASE("an unknown kernel is Unsupported") {
  const auto device = make_cpu_device({});
  const KernelCall call{static_cast<KernelId>(7), {}, {}};
  CHECK_THROWS_AS(device->run(call), Error);
}

TEST_CASE("copies between any strides give every element its value") {
  const auto device = make_cpu_device({});
  const Tensor base = counting_i32(*device, {3, 37, 41});
  const TensorMeta views[] = {
      {{3, 37, 41}, {1517, 41, 1}, DType::kI32},  // as it is
      {{41, 37, 3}, {1, 41, 1517}, DType::kI32},  // all dims turned
      {{3, 41, 37}, {1517, 1, 41}, DType::kI32},  // a batch of transposes
      {{37, 3, 41}, {41, 1517, 1}, DType::kI32},  // rows in another order
      {{3, 19, 14}, {1517, 82, 3}, DType::kI32},  // steps
      {{5, 37, 4}, {0, 41, 0}, DType::kI32},      // expanded
      {{37, 1, 41}, {41, 5, 1}, DType::kI32},
      {{0, 41}, {41, 1}, DType::kI32},
      {{}, {}, DType::kI32},
  };
  for (const TensorMeta& meta : views) {
    const Tensor view = base.as_view(meta, 0);
    CHECK(read_all(view) == elementwise(view));
    const Tensor copy = clone_contiguous(view);
    CHECK(elementwise(copy) == elementwise(view));
  }
}

TEST_CASE("writes go through the strides of the target") {
  const auto device = make_cpu_device({});
  const Tensor base = counting_i32(*device, {2, 3});
  const Tensor turned = base.as_view({{3, 2}, {1, 3}, DType::kI32}, 0);
  const std::vector<std::int32_t> values = {10, 11, 12, 13, 14, 15};
  device->write(turned, values.data());
  CHECK(read_all(base) == std::vector<std::int32_t>{10, 12, 14, 11, 13, 15});
}

TEST_CASE("copying from a snapshot of the target reads the old value") {
  const auto device = make_cpu_device({});
  const Tensor base = counting_i32(*device, {4});
  const Tensor before = base.snapshot();
  device->copy(base.narrow(0, 0, 2), before.narrow(0, 2, 2));
  CHECK(read_all(base) == std::vector<std::int32_t>{2, 3, 2, 3});
  CHECK(read_all(before) == std::vector<std::int32_t>{0, 1, 2, 3});
}
