// Kernels that were compiled a second time for AVX-512 beside their first copy: the same bits for
// every function over elements, products, half types, every kernel that has two copies, all dtypes,
// lengths around those of registers and leaves, rows in one piece and rows that go down beside each
// other. NaN is NaN, whatever its bits. Skipped, with exit code 77, where there is one copy or the
// processor cannot run the second.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "kernels/cpu_kernels.h"
#include "kernels/scratch.h"
#include "kernels/wide_kernels.h"

namespace shardlab {
namespace {

using Random = std::mt19937_64;

// Ends the program where there is none.
const WideKernels& second_copy() {
  const WideKernels* kernels = wide_kernels();
  if (kernels != nullptr) return *kernels;
  fmt::print("this program has no second copy of kernels, or this processor cannot run it\n");
  std::exit(77);
}

// Numbers of every size, ordinary ones most often, and what is no number.
template <typename T>
T drawn(Random& random) {
  using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  const auto word = static_cast<Word>(random());
  switch (random() % 16) {
    case 0:
      return std::bit_cast<T>(word);
    case 1: {
      constexpr T kEnds[] = {T(0),
                             T(-0.0),
                             T(1),
                             T(-1),
                             std::numeric_limits<T>::infinity(),
                             -std::numeric_limits<T>::infinity(),
                             std::numeric_limits<T>::quiet_NaN(),
                             std::numeric_limits<T>::denorm_min(),
                             std::numeric_limits<T>::min(),
                             std::numeric_limits<T>::max(),
                             std::numeric_limits<T>::lowest()};
      return kEnds[random() % std::size(kEnds)];
    }
    case 2:
    case 3:
      return std::ldexp(static_cast<T>(word) / T(std::numeric_limits<Word>::max()) - T(0.5),
                        static_cast<int>(random() % 40));
    default:
      return static_cast<T>(word) / T(std::numeric_limits<Word>::max()) * 8 - 4;
  }
}

// The first element that differs; -1: none does.
template <typename T>
std::int64_t first_difference(const T* a, const T* b, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (std::memcmp(a + i, b + i, sizeof(T)) != 0 && !(a[i] != a[i] && b[i] != b[i])) return i;
  }
  return -1;
}

#define SHARDLAB_NAME(function, operands, kinds, how) #function,
constexpr const char* kFunctionNames[] = {SHARDLAB_ELEMENT_FUNCTIONS(SHARDLAB_NAME)};
#undef SHARDLAB_NAME
#define SHARDLAB_OPERANDS(function, operands, kinds, how) operands,
constexpr std::size_t kOperands[] = {SHARDLAB_ELEMENT_FUNCTIONS(SHARDLAB_OPERANDS)};
#undef SHARDLAB_OPERANDS

// Whether the function takes as many steps as one of its operands says.
bool counts_to_its_order(std::string_view function) {
  for (const std::string_view family :
       {"Chebyshev", "Hermite", "Laguerre", "Legendre", "Polygamma", "Zeta"}) {
    if (function.find(family) != std::string_view::npos) return true;
  }
  return false;
}

template <typename T>
void compare_loops(std::span<const ElementLoop> one, std::span<const ElementLoop> other) {
  REQUIRE(one.size() == std::size(kFunctionNames));
  REQUIRE(other.size() == one.size());
  Random random(7);
  for (std::size_t f = 0; f < one.size(); ++f) {
    REQUIRE((one[f].run == nullptr) == (other[f].run == nullptr));
    if (one[f].run == nullptr) continue;
    const bool few = counts_to_its_order(kFunctionNames[f]);
    for (const std::int64_t count : {0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 4099}) {
      std::vector<std::vector<std::byte>> operands(kOperands[f]);
      std::array<const std::byte*, kMaxOperands> in{};
      for (std::size_t i = 0; i < operands.size(); ++i) {
        const auto bytes = static_cast<std::size_t>(item_bytes(one[f].in[i]));
        operands[i].resize(static_cast<std::size_t>(count) * bytes);
        for (std::int64_t k = 0; k < count; ++k) {
          std::byte* to = operands[i].data() + static_cast<std::size_t>(k) * bytes;
          if (one[f].in[i] == DType::kBool) {
            *to = std::byte(random() % 2);
          } else {
            const T value = few ? T(static_cast<int>(random() % 9)) : drawn<T>(random);
            std::memcpy(to, &value, sizeof(T));
          }
        }
        in[i] = operands[i].data();
      }
      const auto size = static_cast<std::size_t>(count);
      const auto compare = [&](auto type) {
        using Out = decltype(type);
        const std::unique_ptr<Out[]> a(new Out[size + 1]()), b(new Out[size + 1]());
        one[f].run(in.data(), reinterpret_cast<std::byte*>(a.get()), count);
        other[f].run(in.data(), reinterpret_cast<std::byte*>(b.get()), count);
        const std::int64_t at = first_difference(a.get(), b.get(), count + 1);
        CAPTURE(std::string(kFunctionNames[f]));
        CAPTURE(sizeof(T));
        CAPTURE(count);
        CHECK(at == -1);
      };
      if (one[f].out == DType::kBool) {
        compare(bool());
      } else {
        compare(T());
      }
    }
  }
}

// Those of bf16 beside each other, and beside those of f32, rounded.
void compare_bfloat16_loops(std::span<const ElementLoop> one, std::span<const ElementLoop> other) {
  REQUIRE(one.size() == std::size(kFunctionNames));
  REQUIRE(other.size() == one.size());
  const std::span<const ElementLoop> singles = element_loops<float>();
  Random random(11);
  int compared = 0;
  for (std::size_t f = 0; f < one.size(); ++f) {
    REQUIRE((one[f].run == nullptr) == (other[f].run == nullptr));
    if (one[f].run == nullptr) continue;
    ++compared;
    for (const std::size_t count : {0u, 1u, 15u, 16u, 31u, 32u, 33u, 63u, 64u, 65u, 4099u}) {
      std::vector<std::vector<BFloat16>> elements(kOperands[f]);
      std::vector<std::vector<float>> numbers(kOperands[f]);
      std::array<const std::byte*, kMaxOperands> in{}, wide_in{};
      for (std::size_t i = 0; i < elements.size(); ++i) {
        for (std::size_t k = 0; k < count; ++k) {
          elements[i].push_back(to_bfloat16(drawn<float>(random)));
          numbers[i].push_back(to_float(elements[i].back()));
        }
        in[i] = reinterpret_cast<const std::byte*>(elements[i].data());
        wide_in[i] = reinterpret_cast<const std::byte*>(numbers[i].data());
      }
      std::vector<BFloat16> a(count + 1, BFloat16{7}), b = a;
      std::vector<float> single(count + 1);
      const auto length = static_cast<std::int64_t>(count);
      one[f].run(in.data(), reinterpret_cast<std::byte*>(a.data()), length);
      other[f].run(in.data(), reinterpret_cast<std::byte*>(b.data()), length);
      singles[f].run(wide_in.data(), reinterpret_cast<std::byte*>(single.data()), length);
      std::size_t different = 0;
      for (std::size_t k = 0; k < count; ++k) {
        const bool nan = std::isnan(single[k]);
        const auto same = [&](BFloat16 element) {
          return nan ? std::isnan(to_float(element)) : element.bits == to_bfloat16(single[k]).bits;
        };
        if (!same(a[k]) || !same(b[k])) ++different;
      }
      CAPTURE(std::string(kFunctionNames[f]));
      CAPTURE(count);
      CHECK(different == 0);
      CHECK((a[count].bits == 7 && b[count].bits == 7));
    }
  }
  CHECK(compared >= 28);
}

/// The kernels as they are without a second copy, and with it.
struct Devices {
  KernelTable narrow, wide;
  std::unique_ptr<Device> first, second;

  Devices() {
    for (KernelTable* table : {&narrow, &wide}) {
      add_copy_kernels(*table);
      add_normalization_kernels(*table);
      add_softmax_kernels(*table);
      add_variance_kernels(*table);
    }
    second_copy().add(wide);
    first = make_cpu_device(narrow.kernels());
    second = make_cpu_device(wide.kernels());
  }
  bool differ(std::size_t id) const { return narrow.kernels()[id] != wide.kernels()[id]; }
};

/// One call: what it is given, and the shapes and dtypes of what it gives.
struct Call {
  KernelId kernel;
  std::vector<LocalArg> args;
  std::vector<std::pair<Dims, DType>> outputs;
};

std::vector<std::byte> bytes_of(const Tensor& tensor) {
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(tensor.numel() * item_bytes(tensor.dtype())));
  tensor.device()->read(tensor, bytes.data());
  return bytes;
}

// As f64, in which every number of the dtypes here is exact.
std::vector<double> numbers_of(Device& device, const Tensor& tensor) {
  Tensor wide = empty(device, tensor.shape(), DType::kF64);
  const LocalArg args[] = {tensor};
  device.run({.kernel = KernelId::kConvert, .args = args, .outputs = {&wide, 1}});
  std::vector<double> numbers(static_cast<std::size_t>(wide.numel()));
  device.read(wide, numbers.data());
  return numbers;
}

std::vector<Tensor> run_on(Device& device, const Call& call) {
  std::vector<Tensor> outputs;
  for (const auto& [shape, dtype] : call.outputs) outputs.push_back(empty(device, shape, dtype));
  device.run({.kernel = call.kernel, .args = call.args, .outputs = outputs});
  return outputs;
}

/// Elements of a tensor in the memory of the first device, which both devices read.
class Inputs {
 public:
  explicit Inputs(Device& device) : device_(device) {}

  // `is_turned`: the same shape, along the other dim in memory.
  Tensor matrix(std::int64_t rows, std::int64_t columns, DType dtype, bool is_turned) {
    const Dims lying = is_turned ? Dims{columns, rows} : Dims{rows, columns};
    const Tensor values = numbers(lying, dtype);
    if (!is_turned) return values;
    return values.as_view({{rows, columns}, {1, rows}, dtype}, 0);
  }
  Tensor numbers(const Dims& shape, DType dtype) {
    Tensor wide = empty(device_, shape, DType::kF64);
    std::vector<double> values(static_cast<std::size_t>(wide.numel()));
    for (double& value : values) value = drawn<double>(random_);
    if (random_() % 2 == 0) {
      for (double& value : values) value = std::isfinite(value) ? std::fmod(value, 16.0) : 0.5;
    }
    device_.write(wide, values.data());
    if (dtype == DType::kF64) return wide;
    Tensor narrow = empty(device_, shape, dtype);
    const LocalArg args[] = {wide};
    device_.run({.kernel = KernelId::kConvert, .args = args, .outputs = {&narrow, 1}});
    return narrow;
  }

 private:
  Device& device_;
  Random random_{11};
};

// Every kernel that has two copies on matrices of one size and dtype, laid out in one way.
std::vector<Call> calls_on(Inputs& inputs, std::int64_t rows, std::int64_t columns, DType dtype,
                           bool is_turned) {
  using enum KernelId;
  const auto matrix = [&] { return inputs.matrix(rows, columns, dtype, is_turned); };
  const Tensor x = matrix();
  const Dims shape{rows, columns};
  std::vector<Call> calls;
  for (const std::int64_t dim : {0, 1}) {
    const Dims kept{shape[dim == 0 ? 1 : 0]};
    for (const KernelId kernel : {kVar, kStd}) {
      calls.push_back({kernel, {x, Dims{dim}}, {{kept, dtype}}});
    }
    for (const KernelId kernel : {kVarMean, kStdMean}) {
      calls.push_back({kernel, {x, Dims{dim}}, {{kept, dtype}, {kept, dtype}}});
    }
    for (const KernelId kernel : {kSoftmax, kLogSoftmax}) {
      calls.push_back({kernel, {x, Scalar(dim), Scalar(false)}, {{shape, dtype}}});
    }
    for (const KernelId kernel : {kSoftmaxBackward, kLogSoftmaxBackward}) {
      calls.push_back({kernel, {x, matrix(), Scalar(dim), Scalar(0)}, {{shape, dtype}}});
    }
  }
  const Tensor weight = inputs.numbers({columns}, dtype), bias = inputs.numbers({columns}, dtype);
  const Tensor means = inputs.numbers({rows, 1}, dtype), rstds = inputs.numbers({rows, 1}, dtype);
  const Dims each{rows, 1};
  calls.push_back({kNativeLayerNorm,
                   {x, Dims{columns}, weight, bias, Scalar(1e-5)},
                   {{shape, dtype}, {each, dtype}, {each, dtype}}});
  calls.push_back({kNativeLayerNormBackward,
                   {matrix(), x, Dims{columns}, means, rstds, weight, bias},
                   {{shape, dtype}, {{columns}, dtype}, {{columns}, dtype}}});
  return calls;
}

std::string text_of(const Call& call, std::int64_t columns, DType dtype, bool is_turned) {
  return fmt::format("kernel {} of rows of {} {}{}", static_cast<int>(call.kernel), columns,
                     to_string(dtype), is_turned ? ", turned" : "");
}

// A matrix of drawn numbers; by columns: its columns lie one behind the other.
template <typename T>
struct DrawnMatrix {
  std::vector<T> values;
  MatrixView<const T> view;

  DrawnMatrix(Random& random, std::int64_t rows, std::int64_t columns, bool by_columns) {
    std::normal_distribution<T> normal;
    values.resize(static_cast<std::size_t>(rows * columns));
    for (T& value : values) value = normal(random);
    const MatrixView<const T> lying{values.data(), by_columns ? columns : rows,
                                    by_columns ? rows : columns, by_columns ? rows : columns, 1};
    view = by_columns ? turned(lying) : lying;
  }
};

// The first element in which two products of drawn matrices differ; -1: none does.
template <typename T>
std::int64_t differing_product(Random& random, std::int64_t rows, std::int64_t inner,
                               std::int64_t columns, const Products<T>& wide) {
  const bool turns_out = random() % 2 == 0;
  const DrawnMatrix<T> a(random, rows, inner, random() % 2 == 0);
  const DrawnMatrix<T> b(random, inner, columns, random() % 2 == 0);
  std::vector<T> one(static_cast<std::size_t>(rows * columns), T(7)), other = one;
  const auto multiply_into = [&](std::vector<T>& out, const Products<T>& products) {
    const MatrixView<T> lying{out.data(), turns_out ? columns : rows, turns_out ? rows : columns,
                              turns_out ? rows : columns, 1};
    multiply_with<T>(products, turns_out ? turned(lying) : lying, a.view, b.view);
  };
  multiply_into(one, own_products<T>());
  multiply_into(other, wide);
  return first_difference(one.data(), other.data(), rows * columns);
}

template <typename T>
void compare_products(const Products<T>& wide) {
  fix_matmul_blocking();
  Random random(5);
  const auto compare = [&](std::int64_t rows, std::int64_t inner, std::int64_t columns) {
    CAPTURE(sizeof(T));
    CAPTURE(rows);
    CAPTURE(inner);
    CAPTURE(columns);
    CHECK(differing_product(random, rows, inner, columns, wide) == -1);
  };
  const auto size = [&](std::int64_t most) {
    return 2 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  for (int round = 0; round < 1500; ++round) compare(size(120), size(700), size(200));
  for (int round = 0; round < 300; ++round) compare(size(4), size(90), size(100));
  // Sizes that Eigen cuts in every direction.
  for (int round = 0; round < 3; ++round) compare(size(1500), 2000 + size(2000), size(1500));
}

// All elements of a half type as f32, and numbers of all signs and sizes as that type.
template <typename Element>
void compare_halves(void (*widen)(float*, const Element*, std::int64_t),
                    void (*wide_widen)(float*, const Element*, std::int64_t),
                    void (*narrow)(Element*, const float*, std::int64_t),
                    void (*wide_narrow)(Element*, const float*, std::int64_t)) {
  std::vector<Element> elements(1 << 16);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    std::memcpy(&elements[i], &bits, sizeof(bits));
  }
  std::vector<float> one(elements.size()), other(elements.size());
  Random random(13);
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{16},
                                  std::size_t{33}, elements.size()}) {
    CAPTURE(count);
    const auto size = static_cast<std::int64_t>(count);
    widen(one.data(), elements.data(), size);
    wide_widen(other.data(), elements.data(), size);
    CHECK(std::memcmp(one.data(), other.data(), count * sizeof(float)) == 0);
    std::vector<Element> a(count), b(count);
    for (int round = 0; round < 20; ++round) {
      for (std::size_t i = 0; i < count; ++i)
        one[i] = std::bit_cast<float>(std::uint32_t(random()));
      narrow(a.data(), one.data(), size);
      wide_narrow(b.data(), one.data(), size);
      CHECK(std::memcmp(a.data(), b.data(), count * sizeof(Element)) == 0);
    }
  }
}

}  // namespace

TEST_CASE("V-30 functions over elements give the same bits in both copies") {
  compare_loops<float>(element_loops<float>(), second_copy().f32_loops);
  compare_loops<double>(element_loops<double>(), second_copy().f64_loops);
  compare_bfloat16_loops(bfloat16_loops(), second_copy().bf16_loops);
}

TEST_CASE("V-30 half types become f32 and back with the same bits in both copies") {
  const HalfRuns one = own_half_runs(), other = second_copy().half_runs;
  compare_halves(one.widen_f16, other.widen_f16, one.narrow_f16, other.narrow_f16);
  compare_halves(one.widen_bf16, other.widen_bf16, one.narrow_bf16, other.narrow_bf16);
}

TEST_CASE("V-30 products give the same bits in both copies") {
  compare_products<float>(second_copy().f32_products);
  compare_products<double>(second_copy().f64_products);
}

TEST_CASE("V-30 kernels with two copies give the same bits in both") {
  Devices devices;
  std::vector<bool> tried(static_cast<std::size_t>(KernelId::kCount));
  Inputs inputs(*devices.first);
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    for (const std::int64_t columns :
         {0, 1, 5, 8, 16, 17, 31, 32, 33, 40, 64, 129, 511, 513, 1500}) {
      for (const bool is_turned : {false, true}) {
        for (const Call& call : calls_on(inputs, 9, columns, dtype, is_turned)) {
          tried[static_cast<std::size_t>(call.kernel)] = true;
          const std::vector<Tensor> one = run_on(*devices.first, call);
          const std::vector<Tensor> other = run_on(*devices.second, call);
          for (std::size_t i = 0; i < one.size(); ++i) {
            if (bytes_of(one[i]) == bytes_of(other[i])) continue;
            const auto a = numbers_of(*devices.first, one[i]);
            const auto b = numbers_of(*devices.first, other[i]);
            INFO(text_of(call, columns, dtype, is_turned));
            CHECK(first_difference(a.data(), b.data(), one[i].numel()) == -1);
          }
        }
      }
    }
  }
  for (std::size_t id = 0; id < tried.size(); ++id) {
    CAPTURE(id);
    CHECK((tried[id] || !devices.differ(id)));
    CHECK((devices.differ(id) || !tried[id]));
  }
}

}  // namespace shardlab
