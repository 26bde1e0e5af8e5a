// gradient: slopes of samples along dims, from the neighbours of each, in the reference's steps.
// Samples are equally far apart, or at coordinates; at both ends the slope is that of a line
// through two samples or of a parabola through three.
#include <array>

#include "ops/family.h"

namespace shardlab {
namespace {

/// The dims of a call: those named, or all. Each has as many samples as the ends need.
Dims dims_of_slopes(const DTensor& x, const Argument& named, std::int64_t edge_order) {
  if (edge_order != 1 && edge_order != 2) {
    fail(Fix{"use 1 or 2"}, "gradient: edge_order is {}; it must be 1 or 2", edge_order);
  }
  Dims dims = distinct_dims("gradient", named, x.ndim());
  for (std::size_t d = 0; named.is_none() && d < x.ndim(); ++d) {
    dims.push_back(static_cast<std::int64_t>(d));
  }
  for (const std::int64_t dim : dims) {
    const std::int64_t length = x.shape()[index_of(dim)];
    if (length > edge_order) continue;
    fail(Fix{fmt::format("give at least {} samples", edge_order + 1)},
         "gradient: dim {} has {} samples; it must have more than edge_order, {}", dim, length,
         edge_order);
  }
  return dims;
}

void require_spacing_for_each(std::size_t spacings, const Dims& dims) {
  if (spacings == dims.size()) return;
  fail(Fix{"give a spacing for each dim, or one number"},
       "gradient: there are {} spacings for {} dims; there must be one per dim", spacings,
       dims.size());
}

/// Samples along one dim, by places that count from the end where they are negative.
struct Samples {
  Calls& calls;
  const DTensor& x;
  std::int64_t dim;

  Expression from(std::int64_t start, const Argument& end = {}) const {
    return {calls, calls.one("slice.Tensor", {x, dim, start, end})};
  }
  /// The one at `place`, still with its dim.
  Expression at(std::int64_t place) const {
    return from(place, place == -1 ? Argument() : Argument(place + 1));
  }
  DTensor joined(const Expression& first, const Expression& inner, const Expression& last) const {
    return calls.one("cat", {ArgumentList{first, inner, last}, dim});
  }
};

DTensor slope_by_step(const Samples& y, Scalar step, std::int64_t edge_order) {
  const auto per_step = [&](const Expression& rise) { return rise.with("aten::div.Scalar", step); };
  const auto parabola = [&](std::array<std::int64_t, 3> places, std::array<double, 3> shares) {
    const Expression a = y.at(places[0]) * shares[0], b = y.at(places[1]) * shares[1];
    const Expression c = y.at(places[2]) * shares[2];
    return per_step(a + b + c);
  };
  const Expression after = y.from(2), before = y.from(0, -2);
  const Expression inner = per_step(after - before) / 2.0;
  if (edge_order == 2) {
    const Expression first = parabola({0, 1, 2}, {-1.5, 2, -0.5});
    return y.joined(first, inner, parabola({-3, -2, -1}, {0.5, -2, 1.5}));
  }
  const Expression first = per_step(y.at(1).minus(y.at(0)));
  return y.joined(first, inner, per_step(y.at(-1).minus(y.at(-2))));
}

/// The parabola through three neighbours: the weight of each in its slope at one of them, where the
/// three are `near` and then `far` apart.
enum class SlopeAt : std::uint8_t { kFirst, kMiddle, kLast };

std::array<Expression, 3> shares_of(const Expression& near, const Expression& far, SlopeAt place) {
  const Expression width = near + far;
  const Expression first = near * width, middle = near * far, last = far * width;
  switch (place) {
    case SlopeAt::kFirst:
      return {-(near * 2.0 + far) / first, width / middle, -near / last};
    case SlopeAt::kMiddle:
      return {-far / first, (far - near) / middle, near / last};
    case SlopeAt::kLast:
      break;
  }
  return {far / first, -width / middle, (far * 2.0 + near) / last};
}

DTensor slope_by_coordinates(const Samples& y, const DTensor& places, std::int64_t edge_order) {
  const std::int64_t length = y.x.shape()[index_of(y.dim)];
  if (places.ndim() != 1 || places.numel() != length) {
    fail(Fix{"give a coordinate for each sample"},
         "gradient: the coordinates have shape [{}]; there must be {} in one dim, one per sample",
         text_of_list(places.shape(), ", "), length);
  }
  const DTensor widths = y.calls.one("diff", {places});
  // One number for each step of the dim; all other dims are 1.
  Dims shape(y.x.ndim(), 1);
  shape[index_of(y.dim)] = -1;
  const DTensor steps = reshape(y.calls, widths, shape);
  const Samples step{y.calls, steps, y.dim};
  const auto weighed = [&](const std::array<Expression, 3>& shares, const Expression& a,
                           const Expression& b, const Expression& c) {
    const Expression left = shares[0] * a, middle = shares[1] * b, right = shares[2] * c;
    return left + middle + right;
  };
  const Expression near = step.from(0, -1), far = step.from(1);
  const Expression before = y.from(0, -2), here = y.from(1, -1), after = y.from(2);
  const Expression inner = weighed(shares_of(near, far, SlopeAt::kMiddle), before, here, after);
  if (edge_order == 1) {
    const Expression first = y.at(1).minus(y.at(0)).over(step.at(0));
    const Expression rise = y.at(-1).minus(y.at(-2));
    return y.joined(first, inner, rise / step.at(-1));
  }
  const auto end = [&](std::array<std::int64_t, 2> gaps, std::array<std::int64_t, 3> three,
                       SlopeAt place) {
    const Expression one = step.at(gaps[0]), other = step.at(gaps[1]);
    const Expression a = y.at(three[0]), b = y.at(three[1]), c = y.at(three[2]);
    return weighed(shares_of(one, other, place), a, b, c);
  };
  const Expression first = end({0, 1}, {0, 1, 2}, SlopeAt::kFirst);
  return y.joined(first, inner, end({-2, -1}, {-3, -2, -1}, SlopeAt::kLast));
}

void check_samples(const DTensor& x) {
  if (x.dtype() != DType::kU8) return;
  fail(Fix{"cast it: x.to(f32)"}, "gradient takes no u8, which has no sign");
}

/// gradient.scalarint, .scalararray(self, *, spacing, dim, edge_order)
Results slopes_by_step(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  check_samples(x);
  const std::int64_t edge_order = args[3].to_int();
  const Scalar step = args[1].is_none() ? Scalar(1.0) : args[1].scalar();
  ArgumentList slopes;
  for (const std::int64_t dim : dims_of_slopes(x, args[2], edge_order)) {
    slopes.emplace_back(slope_by_step({calls, x, dim}, step, edge_order));
  }
  return {slopes};
}

/// gradient.array(self, *, dim, edge_order)
Results slopes_by_one(Calls& calls, const Arguments& args) {
  return slopes_by_step(calls, {args[0], Argument(), args[1], args[2]});
}

/// gradient.scalarrayint, .scalarrayarray, .tensorarrayint, .tensorarray(self, *, spacing, dim,
/// edge_order): a step or coordinates for each dim
Results slopes_by_spacings(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  check_samples(x);
  const std::int64_t edge_order = args[3].to_int();
  const Dims dims = dims_of_slopes(x, args[2], edge_order);
  const ArgumentList spacings = args[1].is_ints()
                                    ? ArgumentList(args[1].ints().begin(), args[1].ints().end())
                                    : args[1].list();
  // A list of one is not taken for several dims, as in torch.
  require_spacing_for_each(spacings.size(), dims);
  ArgumentList slopes;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const Samples samples{calls, x, dims[i]};
    slopes.emplace_back(spacings[i].is_tensor()
                            ? slope_by_coordinates(samples, spacings[i].tensor(), edge_order)
                            : slope_by_step(samples, spacings[i].scalar(), edge_order));
  }
  return {slopes};
}

constexpr const char* kNeighbours = "differences of slices";

// Sorted by name.
// clang-format off
constexpr Row kDifferenceRows[] = {
    composite("gradient.array"_op, slopes_by_one, kNeighbours),
    composite("gradient.scalararray"_op, slopes_by_step, kNeighbours),
    composite("gradient.scalarint"_op, slopes_by_step, kNeighbours),
    composite("gradient.scalarrayarray"_op, slopes_by_spacings, kNeighbours),
    composite("gradient.scalarrayint"_op, slopes_by_spacings, kNeighbours),
    composite("gradient.tensorarray"_op, slopes_by_spacings, kNeighbours),
    composite("gradient.tensorarrayint"_op, slopes_by_spacings, kNeighbours),
};
// clang-format on

}  // namespace

void register_finite_difference(OpRegistry& registry) { add_rows(registry, kDifferenceRows); }

}  // namespace shardlab
