// Elements are compared as doubles; integers and bool exactly.
#include "tests/facts/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <filesystem>

#include "base/text.h"
#include "kernels/convert.h"
#include "sim/files/text_lines.h"
#include "sim/verify/step_bounds.h"
#include "tensor/host.h"
#include "tests/facts/known_differences.h"

namespace shardlab {

namespace {

// Cases where we differ on purpose, because the recorded value is wrong in digits that matter.
struct Wrong {
  std::string_view id;
  const char* why;
};
constexpr const char* kNoise = "one element normalised is exactly 0; the reference has noise there";
constexpr const char* kVariance = "1e8 + {0, 8, 16} in f32: the variance is 64, not 160";
constexpr Wrong kWrongRecords[] = {
    {"aten.native_layer_norm.default#031", kNoise},
    {"aten.native_layer_norm_backward.default#014", kNoise},
    {"aten.native_layer_norm_backward.default#016", kNoise},
    {"aten.native_layer_norm_backward.out#003", kNoise},
    {"aten.std.correction#018", kVariance},
    {"aten.var.correction#018", kVariance},
};

// Ops for which the reference has NaN in place of a limit: gelu(inf) is inf, Bessel functions
// vanish or grow without bound at infinity, and beyond all places the sum of zeta is 0. Shares up
// to NaN are NaN; the reference has numbers there. logit_backward at -0.0 has -inf there in whole
// vectors and inf in the elements after them; ours has inf everywhere.
constexpr std::string_view kOpsOfLimits[] = {"gelu",
                                             "i0",
                                             "igamma",
                                             "igammac",
                                             "logit_backward",
                                             "prims.bessel_i1",
                                             "prims.bessel_j0",
                                             "prims.bessel_j1",
                                             "special_bessel_j0",
                                             "special_bessel_j1",
                                             "special_bessel_y0",
                                             "special_bessel_y1",
                                             "special_i1",
                                             "special_modified_bessel_i0",
                                             "special_modified_bessel_i1",
                                             "special_zeta"};

bool close(double got, double expected, const Tolerance& tolerance, double factor) {
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got);
  if (std::isinf(expected) || std::isinf(got)) return expected == got;
  const double room = tolerance.absolute + tolerance.relative * std::fabs(expected);
  return std::fabs(got - expected) <= factor * room;
}

// Complex numbers are compared by their distance in the plane.
bool close(const std::complex<double>& got, const std::complex<double>& expected,
           const Tolerance& tolerance, double factor) {
  const double room = tolerance.absolute + tolerance.relative * std::abs(expected);
  if (std::isfinite(room) && std::abs(got - expected) <= factor * room) return true;
  return close(got.real(), expected.real(), tolerance, factor) &&
         close(got.imag(), expected.imag(), tolerance, factor);
}

std::string complex_text(const std::complex<double>& value, DType dtype) {
  return is_complex(dtype) ? fmt::format("{} {}", value.real(), value.imag())
                           : fmt::format("{}", value.real());
}

std::string meta_text(const TensorMeta& meta) {
  return fmt::format("{}[{}]", to_string(meta.dtype), text_of_list(meta.shape, ", "));
}

// Ops for which the reference rounds places, and the weights of their neighbours, to half precision
// before it looks there.
constexpr std::string_view kRoundedPlaces[] = {"grid_sampler_2d", "grid_sampler_2d_backward",
                                               "grid_sampler_3d", "upsample_linear1d"};

}  // namespace

const char* differs_on_purpose(const std::string& id) {
  const auto found = std::ranges::find(kWrongRecords, id, &Wrong::id);
  return found == std::end(kWrongRecords) ? nullptr : found->why;
}

bool differs_by_limits(const std::string& op, const Tensor& got, const RecordedOutput& expected) {
  const std::string_view base = std::string_view(op).substr(0, op.rfind('.'));
  if (std::ranges::count(kOpsOfLimits, base) == 0) return false;
  if (!is_floating(got.dtype()) || got.shape() != expected.meta.shape) return false;
  const std::vector<double> ours = read_doubles(got);
  const Tolerance tolerance = tolerance_of(got.dtype());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double recorded = expected.values[i].real();
    const bool another_limit = base == "logit_backward"
                                   ? std::isinf(recorded) && std::isinf(ours[i])
                                   : std::isnan(recorded) != std::isnan(ours[i]);
    if (another_limit) continue;
    if (!close(ours[i], recorded, tolerance, 10)) return false;
  }
  return true;
}

Tolerance tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return {1e-5, 1e-3};
    case DType::kBF16:
      return {1e-5, 1.6e-2};
    case DType::kF8E4M3FN:
      return {1e-5, 0};
    case DType::kF64:
    case DType::kC128:
      return {1e-7, 1e-7};
    default:
      return {1e-5, 1.3e-6};
  }
}

OpInfoTolerances read_tolerances(const std::string& fact_file) {
  const auto beside = [](const std::string& file, const char* name) {
    return (std::filesystem::path(file).parent_path() / name).string();
  };
  std::string path = beside(fact_file, "tolerances.json.gz");
  if (!std::filesystem::exists(path)) {
    const auto known = KnownDifferences::find_file(fact_file);
    if (known) path = beside(*known, "facts/kernels/tolerances.json.gz");
  }
  OpInfoTolerances tolerances;
  if (!std::filesystem::exists(path)) return tolerances;
  const Json file = parsed_json(read_text(path));
  for (const auto& [opinfo, dtypes] : file.at("opinfo_overrides_atol_rtol").items()) {
    for (const auto& [name, pair] : dtypes.items()) {
      const auto dtype = parse_dtype(name);
      if (dtype) tolerances[opinfo][*dtype] = {number_of(pair.at(0)), number_of(pair.at(1))};
    }
  }
  return tolerances;
}

bool differs_by_places(const std::string& op, const Tensor& got, const Tensor& exact) {
  const std::string_view base = std::string_view(op).substr(0, op.rfind('.'));
  if (std::ranges::count(kRoundedPlaces, base) == 0 || !is_half(got.dtype())) return false;
  const std::vector<double> ours = read_doubles(got), wide = read_doubles(exact);
  const Tolerance tolerance = tolerance_of(got.dtype());
  return std::ranges::equal(ours, wide,
                            [&](double a, double b) { return close(a, b, tolerance, 1); });
}

bool is_nearer(const Tensor& got, const RecordedOutput& expected, const Tensor& exact,
               double factor) {
  if (is_integral(got.dtype()) || exact.shape() != got.shape()) return false;
  if (got.dtype() == DType::kF64 || got.dtype() == DType::kC128) return false;
  const std::vector<double> ours = read_doubles(got), wide = read_doubles(exact);
  const std::size_t parts = is_complex(got.dtype()) ? 2 : 1;
  if (ours.size() != wide.size()) return false;
  const Tolerance tolerance = tolerance_of(got.dtype());
  double largest = 0;
  for (const double value : wide) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  // Or within the tolerance of the largest element: the remainder where terms of its size cancel.
  const auto near = [&](double a, double b) {
    return close(a, b, tolerance, factor) || close(b, a, tolerance, factor) ||
           std::fabs(a - b) <= tolerance.relative * largest;
  };
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const std::complex<double>& value = expected.values[i / parts];
    const double recorded = i % parts == 0 ? value.real() : value.imag();
    if (close(ours[i], recorded, tolerance, 10)) continue;
    // Powers of half precision overflow on the way to a result that does not, or becomes infinite.
    const bool rounded = near(ours[i], wide[i]) ||
                         (std::isinf(ours[i]) && std::fabs(wide[i]) >= largest_of(got.dtype()));
    if (is_half(got.dtype()) && std::isnan(recorded) && rounded) continue;
    const bool nearer = std::fabs(ours[i] - wide[i]) <= std::fabs(recorded - wide[i]);
    if (!nearer || !near(wide[i], recorded)) return false;
  }
  return true;
}

void note_nearer(std::int64_t lines, CheckSummary& summary) {
  if (lines == 0) return;
  summary.notes.push_back(
      fmt::format("the recorded value is rounded more than ours in {} lines, by f64", lines));
}

void note_loose(std::int64_t lines, CheckSummary& summary) {
  if (lines == 0) return;
  summary.notes.push_back(
      fmt::format("ten times the reference's tolerance was needed in {} lines", lines));
}

std::optional<Disagreement> disagreement(const Tensor& got, const RecordedOutput& expected,
                                         const Tolerances& tolerances, double& needed) {
  const DType dtype = got.dtype();
  const auto count = static_cast<std::size_t>(got.numel());
  const auto size = static_cast<std::size_t>(item_bytes(dtype));
  const std::vector<std::byte> bytes = read_bytes(got);
  const auto own = tolerances.find(dtype);
  const Tolerance tolerance = own == tolerances.end() ? tolerance_of(dtype) : own->second;
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* element = bytes.data() + i * size;
    if (is_integral(dtype)) {
      std::int64_t value = 0;
      convert_run({&value, 1, DType::kI64}, {element, 1, dtype}, 1);
      if (value == expected.integers[i]) continue;
      return Disagreement{fmt::format("[{}]", i), fmt::format("{}", expected.integers[i]),
                          fmt::format("{}", value)};
    }
    std::complex<double> value;
    convert_run({&value, 1, DType::kC128}, {element, 1, dtype}, 1);
    const std::complex<double> wanted = expected.values[i];
    if (close(value, wanted, tolerance, 1)) continue;
    needed = 10;
    if (close(value, wanted, tolerance, needed)) continue;
    return Disagreement{fmt::format("[{}]", i), complex_text(wanted, dtype),
                        complex_text(value, dtype)};
  }
  return std::nullopt;
}

std::optional<Disagreement> disagreement(const Argument& got, const RecordedOutput& expected,
                                         bool values, const Tolerances& tolerances,
                                         double& needed) {
  if (expected.scalar) {
    // A number is one element that was read.
    const bool floats = expected.scalar->category() == Category::kFloat && got.is_scalar();
    const bool same =
        floats ? close(got.to_double(), expected.scalar->to_double(), tolerance_of(DType::kF32), 1)
               : got.is_scalar() && got.scalar() == *expected.scalar;
    if (same) return std::nullopt;
    return Disagreement{"", expected.scalar->text(), got.text()};
  }
  const bool there = got.is_tensor() && got.tensor().defined();
  if (!expected.defined) {
    if (!there && !got.is_scalar()) return std::nullopt;
    return Disagreement{"", "None", got.text()};
  }
  if (!there) return Disagreement{"", meta_text(expected.meta), got.text()};
  const Tensor& tensor = got.tensor().local();
  if (tensor.shape() != expected.meta.shape || tensor.dtype() != expected.meta.dtype) {
    return Disagreement{"", meta_text(expected.meta), meta_text(tensor.meta())};
  }
  if (!values || !expected.comparable) return std::nullopt;
  return disagreement(tensor, expected, tolerances, needed);
}

}  // namespace shardlab
