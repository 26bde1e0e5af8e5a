// The device `cuda` over the functions that stand for a GPU on the host. The values of all kernels
// are compared in tests/golden.
#include "backends/cuda/cuda.h"

#include <doctest/doctest.h>

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "backends/cuda/host_table.h"
#include "kernels/kernel_id.h"
#include "tensor/host.h"

using namespace shardlab;
using namespace shardlab::cuda;

namespace {

using Values = std::vector<double>;

std::unique_ptr<CudaDevice> device_with(HostFallback fallback) {
  return make_cuda_device(host_table(), 0, fallback);
}

Tensor tensor_of(Device& device, const Dims& shape, DType dtype, const Values& values) {
  const Tensor tensor = empty(device, shape, dtype);
  write_doubles(tensor, values);
  return tensor;
}

std::string refusal(const std::function<void()>& body, ErrorKind kind) {
  try {
    body();
  } catch (const Error& error) {
    CHECK(error.kind() == kind);
    return error.text();
  }
  return "nothing was refused";
}

}  // namespace

TEST_CASE("cuda: tensors of any strides are written, copied and read") {
  const auto device = device_with(HostFallback::kRefuse);
  CHECK(device->type() == "cuda");
  const Tensor memory = tensor_of(*device, {6}, DType::kI16, Values(6, 9));
  const Tensor turned = memory.as_view({{3, 2}, {1, 3}, DType::kI16}, 0);
  write_doubles(turned, Values{1, 2, 3, 4, 5, 6});
  CHECK(read_doubles(memory) == Values{1, 3, 5, 2, 4, 6});
  CHECK(read_doubles(turned.narrow(0, 1, 2)) == Values{3, 4, 5, 6});
  const Tensor copy = empty(*device, Dims{3, 2}, DType::kI16);
  device->copy(copy, turned);
  CHECK(read_doubles(copy) == Values{1, 2, 3, 4, 5, 6});
  // A repeated element.
  const Tensor repeated = copy.as_view({{2, 3}, {0, 0}, DType::kI16}, 5);
  CHECK(read_doubles(repeated) == Values(6, 6));
}

TEST_CASE("cuda: elements of 1, 2, 4, 8 and 16 bytes are moved, also of dtypes without kernels") {
  const auto device = device_with(HostFallback::kRefuse);
  for (const DType dtype :
       {DType::kBool, DType::kF8E4M3FN, DType::kBF16, DType::kI32, DType::kC64, DType::kC128}) {
    const Tensor x =
        tensor_of(*device, {2}, dtype, is_complex(dtype) ? Values{1, 0.5, 0, -1} : Values{1, 0});
    const Tensor y = empty(*device, Dims{2}, dtype);
    device->copy(y, x);
    CHECK(read_doubles(y) == read_doubles(x));
  }
}

TEST_CASE("cuda: nothing is launched for empty tensors") {
  const auto device = device_with(HostFallback::kRefuse);
  const Tensor x = empty(*device, Dims{0, 3}, DType::kF32);
  const Tensor out = empty(*device, Dims{0, 3}, DType::kF32);
  const std::vector<LocalArg> args{x, x, Scalar(1)};
  device->run({KernelId::kAdd, args, {&out, 1}, nullptr, {}});
  const std::vector<LocalArg> softmax{x, Scalar(1), Scalar(false)};
  device->run({KernelId::kSoftmax, softmax, {&out, 1}, nullptr, {}});
  CHECK(read_doubles(out).empty());
  // A sum over nothing is 0, a product of [2, 0] and [0, 3] all zeros.
  const Tensor sum = empty(*device, Dims{}, DType::kF32);
  const std::vector<LocalArg> summed{x};
  device->run({KernelId::kSum, summed, {&sum, 1}, nullptr, {}});
  CHECK(read_doubles(sum) == Values{0});
  const Tensor a = empty(*device, Dims{2, 0}, DType::kF32),
               b = empty(*device, Dims{0, 3}, DType::kF32);
  const Tensor product = empty(*device, Dims{2, 3}, DType::kF32);
  const std::vector<LocalArg> multiplied{a, b};
  device->run({KernelId::kMm, multiplied, {&product, 1}, nullptr, {}});
  CHECK(read_doubles(product) == Values(6, 0));
}

TEST_CASE("cuda: in-place ops write to a value of their own") {
  const auto device = device_with(HostFallback::kRefuse);
  const Tensor x = tensor_of(*device, {3}, DType::kF32, {1, 2, 3});
  const Tensor before = x.snapshot();
  const std::vector<LocalArg> args{x, Scalar(2.0)};
  device->run({KernelId::kMul, args, {&x, 1}, nullptr, {}});
  CHECK(read_doubles(x) == Values{2, 4, 6});
  CHECK(read_doubles(before) == Values{1, 2, 3});
}

TEST_CASE("cuda: an index out of range is refused with its op") {
  const auto device = device_with(HostFallback::kRefuse);
  const Tensor table = tensor_of(*device, {2, 2}, DType::kF32, {1, 2, 3, 4});
  const Tensor out = empty(*device, Dims{2, 2}, DType::kF32);
  const auto look_up = [&](double first) {
    const Tensor index = tensor_of(*device, {2}, DType::kI64, {first, 0});
    const std::vector<LocalArg> args{table, index};
    device->run({KernelId::kEmbedding, args, {&out, 1}, nullptr, {}});
  };
  CHECK(refusal([&] { look_up(2); }, ErrorKind::kValue).find("embedding: 2 indices") !=
        std::string::npos);
  // It is forgotten with the refusal.
  look_up(1);
  CHECK(read_doubles(out) == Values{3, 4, 1, 2});
}

TEST_CASE("cuda: an op without a kernel says so, or runs on the host and is listed") {
  const auto sort_on = [](CudaDevice& device) {
    const Tensor x = tensor_of(device, {3}, DType::kF32, {3, 1, 2});
    const Tensor values = empty(device, Dims{3}, DType::kF32);
    const Tensor indices = empty(device, Dims{3}, DType::kI64);
    const std::vector<LocalArg> args{x, Scalar(0), Scalar(false)};
    const std::vector<Tensor> outputs{values, indices};
    device.run({KernelId::kSort, args, outputs, nullptr, {}});
    CHECK(read_doubles(values) == Values{1, 2, 3});
    CHECK(read_doubles(indices) == Values{1, 2, 0});
  };
  const auto strict = device_with(HostFallback::kRefuse);
  const std::string text = refusal([&] { sort_on(*strict); }, ErrorKind::kUnsupported);
  CHECK(text.find("device cuda has no kernel for kernel") != std::string::npos);
  CHECK(text.find("--allow-host-fallback") != std::string::npos);
  CHECK(strict->ran_on_host().empty());
  const auto lenient = device_with(HostFallback::kAllow);
  sort_on(*lenient);
  CHECK(lenient->ran_on_host().size() == 1);
  // A dtype without kernels falls back, too.
  const Tensor x = tensor_of(*lenient, {1}, DType::kC64, {1, 2});
  const Tensor y = empty(*lenient, Dims{1}, DType::kC64);
  const std::vector<LocalArg> args{x, x, Scalar(1)};
  lenient->run({KernelId::kAdd, args, {&y, 1}, nullptr, {}});
  CHECK(read_doubles(y) == Values{2, 4});
  CHECK(lenient->ran_on_host().size() == 2);
}

TEST_CASE("cuda: a machine that has nvcc is not told to install it") {
  const auto folder =
      std::filesystem::temp_directory_path() / ("shardlab_nvcc_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "nvcc") << "#!/bin/sh\n";
  std::filesystem::permissions(folder / "nvcc", std::filesystem::perms::owner_all);
  const std::string_view fix = fix_for_missing_module("/nowhere:" + folder.string());
  std::filesystem::remove_all(folder);
  CHECK(fix.find("install the CUDA toolkit") == std::string_view::npos);
  CHECK(fix.find("libshardlab_cuda.so") != std::string_view::npos);
}

TEST_CASE("B-16 cuda: whoever watches the stream is asked before anything of it is read") {
  const auto device = device_with(HostFallback::kRefuse);
  const Tensor x = tensor_of(*device, {2}, DType::kF32, {1, 2});
  int asked = 0;
  device->watch([&](std::chrono::milliseconds) { asked += 1; });
  CHECK(read_doubles(x) == Values{1, 2});
  CHECK(asked == 1);
  write_doubles(x, Values{3, 4});
  CHECK(asked == 2);
  device->watch([](std::chrono::milliseconds) { fail(ErrorKind::kRuntime, "it was cut short"); });
  const auto read = [&] { read_doubles(x); };
  CHECK(refusal(read, ErrorKind::kRuntime).find("it was cut short") != std::string::npos);
  const Tensor index = empty(*device, Dims{1}, DType::kI64);
  const std::vector<LocalArg> args{x.as_view(contiguous_meta(Dims{2, 1}, DType::kF32), 0), index};
  const Tensor out = empty(*device, Dims{1, 1}, DType::kF32);
  const auto look_up = [&] { device->run({KernelId::kEmbedding, args, {&out, 1}, nullptr, {}}); };
  CHECK(refusal(look_up, ErrorKind::kRuntime).find("it was cut short") != std::string::npos);
  device->watch(nullptr);
  CHECK(read_doubles(x) == Values{3, 4});
}

TEST_CASE("cuda: memory is counted by what is asked for, and used again") {
  const auto device = device_with(HostFallback::kRefuse);
  const void* first = nullptr;
  {
    const BufferRef buffer = device->allocate(1000);
    first = buffer->data();
    CHECK(device->memory().held_bytes == 1000);
  }
  CHECK(device->memory().held_bytes == 0);
  const BufferRef again = device->allocate(1010);
  CHECK(again->data() == first);
  const BufferRef larger = device->allocate(5000);
  CHECK(larger->data() != first);
  CHECK(device->memory().peak_bytes == 6010);
  CHECK(device->allocate(0)->data() != nullptr);
}

TEST_CASE("cuda: terms of several ranks are combined in rank order") {
  const auto device = device_with(HostFallback::kRefuse);
  const auto combined = [&](DType dtype, ReduceOp op, const Values& terms, std::int64_t ranks) {
    const auto count = static_cast<std::int64_t>(terms.size()) / ranks;
    const Tensor all = tensor_of(*device, {ranks * count}, dtype, terms);
    const Tensor out = empty(*device, Dims{count}, dtype);
    std::vector<const void*> inputs;
    for (std::int64_t i = 0; i < ranks; ++i) {
      inputs.push_back(static_cast<const std::byte*>(all.storage()->buffer()->data()) +
                       i * count * item_bytes(dtype));
    }
    device->combine({dtype, op, inputs, out.storage()->writable()->data(), 1, count, count});
    return read_doubles(out);
  };
  // ((1e8 + 1) - 1e8) is 0 in f32; 256 + 1 + 1 is 258 in bf16 when it is rounded once.
  CHECK(combined(DType::kF32, ReduceOp::kSum, {1e8, 1, -1e8}, 3) == Values{0});
  CHECK(combined(DType::kBF16, ReduceOp::kSum, {256, 1, 1}, 3) == Values{258});
  CHECK(combined(DType::kI16, ReduceOp::kBitXor, {6, 1, 3, 1}, 2) == Values{5, 0});
  CHECK(combined(DType::kU64, ReduceOp::kMax, {1, 9, 7, 3}, 2) == Values{7, 9});
  CHECK(combined(DType::kBool, ReduceOp::kSum, {1, 0, 1, 0}, 2) == Values{1, 0});
  CHECK(combined(DType::kBool, ReduceOp::kBitXor, {1, 0, 1, 1}, 2) == Values{0, 1});
  CHECK(combined(DType::kF64, ReduceOp::kAvg, {1, 4}, 2) == Values{2.5});
  CHECK(combined(DType::kF16, ReduceOp::kProduct, {3, 5}, 2) == Values{15});
}
