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
    // Bessel functions vanish, or grow without bound, at infinity; the reference gives NaN.
    "aten.i0.default#000",
    "aten.i0.out#000",
    "aten.i0_.default#000",
    "aten.special_i1.default#000",
    "aten.special_i1.out#000",
    "aten.special_modified_bessel_i0.default#000",
    "aten.special_modified_bessel_i0.out#000",
    "aten.special_modified_bessel_i1.default#000",
    "aten.special_modified_bessel_i1.default#001",
    "aten.special_modified_bessel_i1.out#000",
    "aten.special_bessel_j0.default#000",
    "aten.special_bessel_j0.default#001",
    "aten.special_bessel_j0.out#000",
    "aten.special_bessel_j1.default#000",
    "aten.special_bessel_j1.out#000",
    "aten.special_bessel_y0.default#000",
    "aten.special_bessel_y0.out#000",
    "aten.special_bessel_y1.default#000",
    "aten.special_bessel_y1.out#000",
    "prims.bessel_i1.default#001",
    "prims.bessel_j0.default#001",
    // The share up to NaN is NaN, also where the other operand is infinite.
    "aten.igamma.default#000",
    "aten.igamma.default#001",
    "aten.igamma.out#000",
    "aten.igamma_.default#000",
    "aten.igammac.default#000",
    "aten.igammac.out#000",
    "aten.igammac_.default#000",
    // A negative number over -0.0 is inf.
    "aten.logit_backward.default#000",
    "aten.logit_backward.grad_input#000",
    // Near a pole f32 keeps four digits of 412.7443.
    "aten.polygamma.default#000",
    "aten.polygamma.out#000",
    // Powers of a bf16 matrix overflow there; the result does not.
    "aten.linalg_matrix_exp.default#005",
    "aten.linalg_matrix_exp.default#006",
    "aten.linalg_matrix_exp.default#007",
    // Weights rounded to bf16 before they are applied.
    "aten.upsample_linear1d.default#022",
    // Places of a bf16 grid, and their weights, rounded to bf16 before they are applied.
    "aten.grid_sampler_2d.default#018",
    "aten.grid_sampler_2d.default#021",
    "aten.grid_sampler_2d_backward.default#012",
    "aten.grid_sampler_2d_backward.default#013",
    // Behind all places the sum is 0.
    "aten.special_zeta.default#000",
    "aten.special_zeta.default#001",
    "aten.special_zeta.out#000",
    "aten.special_zeta.self_scalar#000",
    "aten.special_zeta.self_scalar#002",
    "aten.special_zeta.self_scalar_out#000",
    "aten.special_zeta.self_scalar_out#002",
    // What src replaces passes no gradient on; the reference hands it to both.
    "grad:aten.as_strided_scatter.default#000",
    "grad:aten.as_strided_scatter.default#002",
    "grad:aten.as_strided_scatter.default#004",
    // (-2.40625 + 10) * 5 is 37.97, in bf16 38.
    "aten.histc.default#025",
    // 1e8 + {0, 8, 16} in f32: the variance is 64, not 160.
    "aten.std.correction#018",
    "aten.var.correction#018",
};

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
  // Which of several equal values is named.
  const bool indexed = op == "topk.default" || op == "kthvalue.default";
  if (indexed && output == 1) return true;
  // The signs (phases) of singular vectors and eigenvectors; which eigenvalue comes first.
  if (op == "_linalg_svd.default") return output != 1;
  if (op == "linalg_eig.default") return true;
  return op == "_linalg_eigh.default" && output == 1;
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
