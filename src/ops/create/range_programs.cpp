// Rows of numbers between tensors, normal numbers about tensors, and grids of coordinates: on the
// mesh of the tensors that they are made for.
#include <numbers>

#include "kernels/promotion.h"
#include "ops/family.h"

namespace shardlab {
namespace {

using grad::grad_zeros;

// linspace(start, end, steps, *, dtype) and logspace(start, end, steps, base, *, dtype) where one
// end or both are tensors of one element

const DTensor& tensor_among(const Arguments& args) {
  return args[0].is_tensor() ? args[0].tensor() : args[1].tensor();
}

Expression end_of(Calls& calls, const DTensor& like, const Argument& argument) {
  if (!argument.is_tensor()) {
    return {calls, calls.one("new_full", {like, Dims{}, argument, DType::kF64})};
  }
  if (argument.tensor().ndim() != 0) {
    fail(Fix{"give a number, or a tensor without dims"},
         "linspace: an end has {} dims; it must have none", argument.tensor().ndim());
  }
  return Expression(calls, argument.tensor()).to(DType::kF64);
}

/// Both ends are exact; integers go from an integer to an integer.
Expression between(Calls& calls, const Arguments& args, DType dtype) {
  const DTensor& like = tensor_among(args);
  const std::int64_t steps = args[2].to_int();
  if (steps < 0) {
    fail(Fix{"give the number of values"},
         "linspace: the number of steps is {}; it must not be negative", steps);
  }
  const auto whole = [&](const Expression& end) {
    return is_integral(dtype) ? end.of("trunc") : end;
  };
  const Expression start = whole(end_of(calls, like, args[0]));
  const Expression end = whole(end_of(calls, like, args[1]));
  const Expression place(calls, counted(calls, like, steps, DType::kF64));
  const Expression step = (end - start) / static_cast<double>(std::max<std::int64_t>(steps - 1, 1));
  const auto half = static_cast<double>((steps + 1) / 2);
  const Expression rest = -place + static_cast<double>(steps - 1);
  const Expression from_start = start + place * step, from_end = end - rest * step;
  return place.lt(half).choose(from_start, from_end);
}

DType wanted_dtype(const Argument& dtype) { return dtype_or(dtype, DType::kF32); }

Results linspace(Calls& calls, const Arguments& args) {
  const DType dtype = wanted_dtype(args[3]);
  return {between(calls, args, dtype).to(dtype)};
}

Results logspace(Calls& calls, const Arguments& args) {
  const DType dtype = wanted_dtype(args[4]);
  const Expression exponents = between(calls, args, dtype);
  const DTensor powers = calls.one("pow.Scalar", {args[3], exponents});
  return {Expression(calls, powers).to(dtype)};
}

// Windows: hamming_window(window_length, periodic, alpha, beta, *, dtype) and its like, by the
// place of each number along a period, from 0 to 1. One that is not periodic ends where it began.

using Shape = Expression (*)(const Expression& way, const Arguments& args);

template <std::size_t numbers, Shape shape>
Results window(Calls& calls, const Arguments& args) {
  const std::int64_t length = args[0].to_int();
  const DType dtype = require_float("a window", wanted_dtype(args[1 + numbers]));
  if (length < 0) {
    fail(Fix{"give how many numbers there are"},
         "the length of a window is {}; it must not be negative", length);
  }
  if (length == 1) return {calls.one("ones", {Dims{1}, dtype})};
  const bool periodic = numbers == 0 || args[1].to_bool();
  const Expression place(calls, calls.one("arange", {length, DType::kF64}));
  const Expression way = place / static_cast<double>(periodic ? length : length - 1);
  return {shape(way, args).to(dtype)};
}

Expression wave(const Expression& way, double times) {
  return (way * (2 * std::numbers::pi * times)).of("cos");
}

template <std::size_t numbers>
Expression hamming(const Expression& way, const Arguments& args) {
  const double alpha = numbers > 1 ? args[2].to_double() : 0.54;
  const double beta = numbers > 2 ? args[3].to_double() : 0.46;
  return wave(way, 1) * -beta + alpha;
}
Expression blackman(const Expression& way, const Arguments&) {
  const Expression slow = wave(way, 1) * -0.5, fast = wave(way, 2) * 0.08;
  return slow + fast + 0.42;
}
Expression triangle(const Expression& way, const Arguments&) {
  return -(way * 2.0 - 1.0).of("abs") + 1.0;
}
template <std::size_t numbers>
Expression kaiser(const Expression& way, const Arguments& args) {
  const double beta = numbers > 1 ? args[2].to_double() : 12.0;
  const Expression aside = way * 2.0 - 1.0;
  const Expression height = (-(aside * aside) + 1.0).with("clamp_min", 0).of("sqrt") * beta;
  const DTensor middle = way.calls().one("full", {Dims{}, beta, DType::kF64});
  const Expression most(way.calls(), middle);
  const Expression curve = height.of("i0");
  return curve / most.of("i0");
}

// normal(mean, std, *, generator): each element about its own mean

DTensor noise_like(Calls& calls, const DTensor& x, const Argument& generator) {
  require_float("normal", x.dtype());
  return calls.one("normal_functional", {calls.one("zeros_like", {x}), 0.0, 1.0, generator});
}

Results normal_tensors(Calls& calls, const Arguments& args) {
  const Expression mean(calls, args[0].tensor()), deviation(calls, args[1].tensor());
  const Expression shape = mean + deviation.of("zeros_like");
  const Expression noise(calls, noise_like(calls, shape, args[2]));
  return {mean + noise * deviation};
}

void require_deviation(const Argument& deviation) {
  if (deviation.to_double() >= 0) return;
  fail(Fix{"give a std of at least 0"}, "normal: std is {}; it must not be negative",
       deviation.text());
}

Results normal_about(Calls& calls, const Arguments& args) {
  require_deviation(args[1]);
  const Expression noise(calls, noise_like(calls, args[0].tensor(), args[2]));
  return {Expression(calls, args[0].tensor()).plus(noise * args[1].to_double())};
}

Results normal_spread(Calls& calls, const Arguments& args) {
  const Expression noise(calls, noise_like(calls, args[1].tensor(), args[2]));
  return {noise * Expression(calls, args[1].tensor()) + args[0].to_double()};
}

/// The highest number of a permutation: as in the reference the last one that floats count up to
/// without a gap, but for bf16, which rounds.
std::int64_t last_of_permutation(DType dtype) {
  if (dtype == DType::kF16) return std::int64_t{1} << 11;
  if (dtype == DType::kF32) return std::int64_t{1} << 24;
  if (dtype == DType::kF64) return std::int64_t{1} << 53;
  if (is_integral(dtype)) return highest_number(dtype).to_int();
  return std::numeric_limits<std::int64_t>::max();
}

/// randperm(n, ..): the order of as many numbers that are drawn
Results randperm(Calls& calls, const Arguments& args) {
  const std::int64_t count = args[0].to_int();
  if (count < 0) {
    fail(Fix{"give how many numbers there are"}, "randperm: n is {}; it must not be negative",
         count);
  }
  const DType dtype = dtype_or(args[1], DType::kI64);
  if (dtype == DType::kBool || is_complex(dtype) || count - 1 > last_of_permutation(dtype)) {
    fail(Fix{"leave out the dtype, and cast the result"},
         "randperm: {} numbers cannot be numbered in {}", count, to_string(dtype));
  }
  const DTensor draws = calls.one("rand", {Dims{count}, DType::kF64});
  const DTensor order = calls.one("argsort", {draws, 0, false});
  return {cast_to(calls, order, dtype)};
}

// affine_grid_generator(theta, size, align_corners): the source of each pixel of a picture of
// `size`, in coordinates from -1 to 1

/// Coordinates of pixels along one dim: at its ends, or at the middle of pixels.
Expression coordinates(Calls& calls, const DTensor& like, std::int64_t count, bool corners) {
  const Expression place(calls, counted(calls, like, count, DType::kF64));
  if (count <= 1) return place * 0.0;
  const Expression line = place * (2.0 / static_cast<double>(count - 1)) - 1.0;
  return corners ? line : line * (static_cast<double>(count - 1) / static_cast<double>(count));
}

Results affine_grid(Calls& calls, const Arguments& args) {
  const DTensor& theta = args[0].tensor();
  const Dims size = ints_of(args[1]);
  const auto dims = static_cast<std::int64_t>(size.size()) - 2;
  const bool fits = (dims == 2 || dims == 3) && theta.shape() == Dims{size[0], dims, dims + 1};
  if (!fits) {
    fail(Fix{"give sizes [batch, channels, height, width] and theta of shape [batch, 2, 3]"},
         "affine_grid_generator: theta of shape [{}] does not fit a picture of shape [{}]",
         text_of_list(theta.shape(), ", "), text_of_list(size, ", "));
  }
  const Dims picture(size.begin() + 2, size.end());
  ArgumentList axes;
  for (std::size_t d = picture.size(); d-- > 0;) {
    Dims line(picture.size(), 1);
    line[d] = picture[d];
    const Expression along = coordinates(calls, theta, picture[d], args[2].to_bool());
    axes.emplace_back(
        calls.one("expand", {regrouped(calls, along.to(theta.dtype()), line), picture}));
  }
  axes.emplace_back(calls.one("new_ones", {theta, picture, theta.dtype()}));
  const std::int64_t pixels = product(picture);
  const DTensor base = regrouped(calls, calls.one("stack", {axes, -1}), Dims{1, pixels, dims + 1});
  const DTensor each = calls.one("expand", {base, Dims{size[0], pixels, dims + 1}});
  const DTensor grid = calls.one("bmm", {each, calls.one("transpose.int", {theta, 1, 2})});
  Dims shape{size[0]};
  for (const std::int64_t length : picture) shape.push_back(length);
  shape.push_back(dims);
  return {regrouped(calls, grid, shape)};
}

constexpr const char* kBetween = "from counted positions";
constexpr const char* kNoise = "normal_functional";

// Sorted by name.
// clang-format off
constexpr Row kRangePrograms[] = {
    composite("affine_grid_generator"_op, affine_grid, "bmm"),
    composite("bartlett_window"_op, window<0, triangle>, kBetween),
    composite("bartlett_window.periodic"_op, window<1, triangle>, kBetween),
    composite("blackman_window"_op, window<0, blackman>, kBetween),
    composite("blackman_window.periodic"_op, window<1, blackman>, kBetween),
    composite("hamming_window"_op, window<0, hamming<0>>, kBetween),
    composite("hamming_window.periodic"_op, window<1, hamming<1>>, kBetween),
    composite("hamming_window.periodic_alpha"_op, window<2, hamming<2>>, kBetween),
    composite("hamming_window.periodic_alpha_beta"_op, window<3, hamming<3>>, kBetween),
    composite("kaiser_window"_op, window<0, kaiser<0>>, kBetween),
    composite("kaiser_window.beta"_op, window<2, kaiser<2>>, kBetween),
    composite("kaiser_window.periodic"_op, window<1, kaiser<1>>, kBetween),
    composite("linspace.Scalar_Tensor"_op, linspace, kBetween),
    composite("linspace.Tensor_Scalar"_op, linspace, kBetween),
    composite("linspace.Tensor_Tensor"_op, linspace, kBetween),
    composite("logspace.Scalar_Tensor"_op, logspace, kBetween),
    composite("logspace.Tensor_Scalar"_op, logspace, kBetween),
    composite("logspace.Tensor_Tensor"_op, logspace, kBetween),
    composite("normal.Tensor_Tensor"_op, normal_tensors, {grad_zeros, ""}, kNoise, kRandom),
    composite("normal.Tensor_float"_op, normal_about, {grad_zeros, ""}, kNoise, kRandom),
    composite("normal.float_Tensor"_op, normal_spread, {grad_zeros, ""}, kNoise, kRandom),
    composite("randperm"_op, randperm, "argsort of draws", kRandom | kNotDifferentiable),
};
// clang-format on

}  // namespace

void register_range_programs(OpRegistry& registry) { add_rows(registry, kRangePrograms); }

}  // namespace shardlab
