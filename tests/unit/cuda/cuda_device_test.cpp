// The device `cuda` over functions of the host in place of a GPU. The values of all kernels are
// compared in tests/golden.
#include "backends/cuda/cuda.h"

#include <doctest/doctest.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/pieces.h"
#include "kernels/kernel_id.h"
#include "tensor/host.h"
#include "tests/support/host_table.h"

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

namespace {

Values reduced(Device& device, KernelId id, const Tensor& x, DType dtype) {
  const Tensor out = empty(device, Dims{x.size(0)}, dtype);
  const std::vector<LocalArg> args{x, Dims{1}, Scalar(false)};
  device.run({id, args, {&out, 1}, nullptr, {}});
  return read_doubles(out);
}

// Values and places of the extrema along dim 1.
std::pair<Values, Values> extrema(Device& device, KernelId id, const Tensor& x) {
  const std::vector<Tensor> outputs{empty(device, Dims{x.size(0)}, x.dtype()),
                                    empty(device, Dims{x.size(0)}, DType::kI64)};
  const std::vector<LocalArg> args{x, Scalar(1), Scalar(false)};
  device.run({id, args, outputs, nullptr, {}});
  return {read_doubles(outputs[0]), read_doubles(outputs[1])};
}

// The ends of a row, and the places on both sides of its first cuts.
std::vector<std::int64_t> telling_places(std::int64_t rows, std::int64_t size) {
  std::vector<std::int64_t> places{0, size - 1};
  const std::int64_t piece = pieces_of(rows, size).size;
  for (const std::int64_t at : {piece - 1, piece, 2 * piece - 1, 2 * piece}) {
    if (at > 0 && at < size - 1) places.push_back(at);
  }
  return places;
}

}  // namespace

TEST_CASE("V-14 cuda: long rows are cut into pieces that cover them, by their shape alone") {
  for (const std::int64_t rows : {1, 2, 3, 1000, 1024, 1025, 1 << 20}) {
    for (const std::int64_t size : {0, 1, 8192, 8193, 16384, 16385, 100'003, 50'000'000}) {
      CAPTURE(rows);
      CAPTURE(size);
      const Pieces pieces = pieces_of(rows, size);
      // All of the row, and no piece is empty.
      CHECK(pieces.per_row * pieces.size >= size);
      CHECK((size == 0 || (pieces.per_row - 1) * pieces.size < size));
      CHECK((pieces.per_row == 1 || rows * pieces.per_row <= 2048));
      CHECK((pieces.per_row == 1) == (size <= 8192 || rows > 1024));
    }
  }
  // A gradient of 50 million elements: as many blocks as a GPU takes.
  CHECK(pieces_of(1, 50'000'000).per_row == 2048);
  CHECK(pieces_of(1, 16385).per_row == 3);
  CHECK(pieces_of(1, 16385).size == 5462);
}

TEST_CASE("V-14 cuda: a fold finds what stands on either side of a cut, in any kind and dtype") {
  const auto device = device_with(HostFallback::kRefuse);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::int64_t size : {8192, 8193, 16385}) {
    for (const std::int64_t rows : {1, 3}) {
      for (const std::int64_t place : telling_places(rows, size)) {
        CAPTURE(size);
        CAPTURE(rows);
        CAPTURE(place);
        // All the same, except for one element of the last row.
        const auto row_with = [&](double all, double one, DType dtype) {
          Values values(static_cast<std::size_t>(rows * size), all);
          values[static_cast<std::size_t>((rows - 1) * size + place)] = one;
          return tensor_of(*device, {rows, size}, dtype, values);
        };
        const auto result = [&](double all, double one) {
          Values expected(static_cast<std::size_t>(rows), all);
          expected.back() = one;
          return expected;
        };
        const Tensor high = row_with(0, 7, DType::kF32), low = row_with(0, -7, DType::kI64);
        CHECK(reduced(*device, KernelId::kSum, high, DType::kF32) == result(0, 7));
        CHECK(reduced(*device, KernelId::kSum, low, DType::kI64) == result(0, -7));
        CHECK(reduced(*device, KernelId::kAmax, high, DType::kF32) == result(0, 7));
        CHECK(reduced(*device, KernelId::kAmin, low, DType::kI64) == result(0, -7));
        CHECK(reduced(*device, KernelId::kAny, high, DType::kBool) == result(0, 1));
        const auto at = static_cast<double>(place);
        CHECK(extrema(*device, KernelId::kMaxDim, high) == std::pair(result(0, 7), result(0, at)));
        CHECK(extrema(*device, KernelId::kMinDim, low) == std::pair(result(0, -7), result(0, at)));
        const auto lost = extrema(*device, KernelId::kMinDim, row_with(5, nan, DType::kF64));
        CHECK(std::isnan(lost.first.back()));
        CHECK(lost.second == result(0, at));
      }
    }
  }
}

TEST_CASE("V-14 cuda: folds of rows that are cut are those of the row") {
  const auto device = device_with(HostFallback::kRefuse);
  const std::int64_t rows = 2, size = 20'001;
  // Small numbers of no period, which floats add up exactly; 1 and 0 for truth.
  Values values;
  for (std::int64_t i = 0; i < rows * size; ++i) {
    values.push_back(static_cast<double>(i * 7919 % 1013 % 19));
  }
  Values sums(2, 0), largest(2, -1), first(2, 0);
  for (std::int64_t i = 0; i < rows * size; ++i) {
    const auto row = static_cast<std::size_t>(i / size), at = static_cast<std::size_t>(i);
    sums[row] += values[at];
    if (values[at] > largest[row]) first[row] = static_cast<double>(i % size);
    largest[row] = std::max(largest[row], values[at]);
  }
  // Also along a dim that is not contiguous in memory.
  const Tensor x = tensor_of(*device, {rows, size}, DType::kF32, values);
  const Tensor memory = empty(*device, Dims{size, rows}, DType::kF32);
  const Tensor turned = memory.as_view({{rows, size}, {1, rows}, DType::kF32}, 0);
  device->copy(turned, x);
  for (const Tensor& seen : {x, turned}) {
    CHECK(reduced(*device, KernelId::kSum, seen, DType::kF32) == sums);
    CHECK(extrema(*device, KernelId::kMaxDim, seen) == std::pair(largest, first));
  }
  // One 0 in the second row; then 2 at both ends of the first.
  Values ones(static_cast<std::size_t>(rows * size), 1);
  ones.back() = 0;
  CHECK(reduced(*device, KernelId::kAll, tensor_of(*device, {rows, size}, DType::kF64, ones),
                DType::kBool) == Values{1, 0});
  ones.back() = -3;
  ones[0] = ones[static_cast<std::size_t>(size) - 1] = 2;
  const Tensor factors = tensor_of(*device, {rows * size}, DType::kF64, ones);
  const Tensor out = empty(*device, Dims{rows}, DType::kF64);
  const std::vector<LocalArg> args{
      factors.as_view(contiguous_meta(Dims{rows, size}, DType::kF64), 0), Scalar(1), Scalar(false)};
  device->run({KernelId::kProd, args, {&out, 1}, nullptr, {}});
  CHECK(read_doubles(out) == Values{4, -3});
}

TEST_CASE("V-14 cuda: no rows, and rows without elements, are folded as before") {
  const auto device = device_with(HostFallback::kRefuse);
  const Tensor none = empty(*device, Dims{0, 20'000}, DType::kF32);
  CHECK(reduced(*device, KernelId::kSum, none, DType::kF32).empty());
  CHECK(extrema(*device, KernelId::kMaxDim, none).second.empty());
  const Tensor empty_rows = empty(*device, Dims{3, 0}, DType::kF32);
  CHECK(reduced(*device, KernelId::kSum, empty_rows, DType::kF32) == Values(3, 0));
  CHECK(reduced(*device, KernelId::kAll, empty_rows, DType::kBool) == Values(3, 1));
}

TEST_CASE("V-14 cuda: pieces of a row are added up apart from each other") {
  const auto device = device_with(HostFallback::kRefuse);
  // Added one after the other, every 1 would be lost next to 2^24 in f32.
  const std::int64_t size = 5 * 8192;
  Values values(static_cast<std::size_t>(size), 1);
  values[0] = 16'777'216;
  const Tensor x = tensor_of(*device, {1, size}, DType::kF32, values);
  CHECK(reduced(*device, KernelId::kSum, x, DType::kF32) == Values{16'777'216 + 4 * 8192});
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
  // The refusal clears it.
  look_up(1);
  CHECK(read_doubles(out) == Values{3, 4, 1, 2});
}

TEST_CASE("cuda: an op without a kernel says so, or runs on the host and is listed") {
  const auto exponential_on = [](CudaDevice& device) {
    const Tensor x = tensor_of(device, {2, 2}, DType::kF32, {0, 3, 0, 0});
    const Tensor values = empty(device, Dims{2, 2}, DType::kF32);
    const std::vector<LocalArg> args{x};
    device.run({KernelId::kMatrixExp, args, {&values, 1}, nullptr, {}});
    CHECK(read_doubles(values) == Values{1, 3, 0, 1});
  };
  const auto strict = device_with(HostFallback::kRefuse);
  const std::string text = refusal([&] { exponential_on(*strict); }, ErrorKind::kUnsupported);
  CHECK(text.find("device cuda has no kernel for kernel") != std::string::npos);
  CHECK(text.find("--allow-host-fallback") != std::string::npos);
  CHECK(strict->ran_on_host().empty());
  const auto lenient = device_with(HostFallback::kAllow);
  exponential_on(*lenient);
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
