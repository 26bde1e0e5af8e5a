#include "tests/golden/kernels/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/convert.h"

namespace shardlab {

namespace {

// Cases where we differ on purpose, because the recorded value is wrong in digits that matter.
constexpr const char* kDifferences[] = {
    // gelu(inf) is inf; the reference's vector code gives NaN.
    "aten.gelu.default#000",
    "aten.gelu.default#008",
    "aten.gelu.out#000",
    "aten.gelu_.default#000",
    "aten.gelu_.default#003",
    // Two roundings in bf16: log(1 + exp(-8.125) + exp(-3.961)) is 0.01916, not 0.01550.
    "aten._log_softmax.default#035",
    // One element normalised is exactly 0; the reference gives rounding noise.
    "aten.native_layer_norm.default#031",
    "aten.native_layer_norm_backward.default#014",
    "aten.native_layer_norm_backward.default#016",
    "aten.native_layer_norm_backward.out#003",
    // 1e8 + {0, 8, 16} in f32: the variance is 64, not 160.
    "aten.std.correction#018",
    "aten.var.correction#018",
};

// Which of several equal values topk names is not determined; its values are.
double relative_tolerance(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 1e-3;
    case DType::kBF16:
      return 1.6e-2;
    case DType::kF8E4M3FN:
      return 0;
    case DType::kF64:
    case DType::kC128:
      return 1e-7;
    default:
      return 1.3e-6;
  }
}

double absolute_tolerance(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kC128 ? 1e-7 : 1e-5;
}

bool close(double got, double expected, DType dtype, double factor) {
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got);
  if (std::isinf(expected) || std::isinf(got)) return expected == got;
  const double room = absolute_tolerance(dtype) + relative_tolerance(dtype) * std::fabs(expected);
  return std::fabs(got - expected) <= factor * room;
}

}  // namespace

bool differs_on_purpose(const std::string& id) { return std::ranges::count(kDifferences, id) > 0; }

bool is_undetermined(const std::string& op, std::size_t output) {
  return op == "topk.default" && output == 1;
}

double agreement(const Tensor& got, const RecordedOutput& expected, std::string& where) {
  const auto count = static_cast<std::size_t>(got.numel());
  std::vector<std::byte> bytes(count * static_cast<std::size_t>(item_bytes(got.dtype())));
  got.device()->read(got, bytes.data());
  double needed = 1;
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* element = bytes.data() + i * static_cast<std::size_t>(item_bytes(got.dtype()));
    if (is_integral(got.dtype())) {
      std::int64_t value = 0;
      convert_run({&value, 1, DType::kI64}, {element, 1, got.dtype()}, 1);
      if (value == expected.integers[i]) continue;
      where = fmt::format("[{}] is {}, not {}", i, value, expected.integers[i]);
      return 0;
    }
    std::complex<double> value;
    convert_run({&value, 1, DType::kC128}, {element, 1, got.dtype()}, 1);
    const std::complex<double> wanted = expected.values[i];
    for (const double factor : {1.0, 10.0, 0.0}) {
      if (factor == 0) {
        where = fmt::format("[{}] is {} {}, not {} {}", i, value.real(), value.imag(),
                            wanted.real(), wanted.imag());
        return 0;
      }
      if (close(value.real(), wanted.real(), got.dtype(), factor) &&
          close(value.imag(), wanted.imag(), got.dtype(), factor)) {
        needed = std::max(needed, factor);
        break;
      }
    }
  }
  return needed;
}

}  // namespace shardlab
