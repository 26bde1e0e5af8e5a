// Values of an input at the points of a grid. Samples are independent; the values are linear in the
// input, so that pending sums of it pass.
#include <algorithm>
#include <array>

#include "ops/family.h"

namespace shardlab {
namespace {

using namespace grad;

/// "grid_sampler_2d": [samples, channels, ..2 sizes].
std::size_t sampled_dims(const OpDescriptor& op) {
  return op.base.find("3d") == std::string::npos ? 2 : 3;
}

void check_words(const MetaArgs& args, std::size_t first) {
  const std::int64_t between = args[first].to_int(), outside = args[first + 1].to_int();
  if (between >= 0 && between <= 2 && outside >= 0 && outside <= 2) return;
  fail(Fix{"give interpolation_mode 0 (linear), 1 (nearest) or 2 (cubic), and padding_mode 0 "
           "(zeros), 1 (border) or 2 (reflection)"},
       "{}: interpolation_mode is {} and padding_mode is {}; both must be 0, 1 or 2",
       args.op().name(), between, outside);
}

/// The shape of the values of `input` at the points of `grid`, which is [samples, ..sizes, dims].
Dims sampled_shape(const MetaArgs& args, std::size_t first) {
  const TensorMeta &input = *args.tensor(first), &grid = *args.tensor(first + 1);
  const std::size_t dims = sampled_dims(args.op());
  const auto fits = [&] {
    if (input.shape.size() != dims + 2 || grid.shape.size() != dims + 2) return false;
    if (input.shape[0] != grid.shape[0] || grid.shape.back() != static_cast<std::int64_t>(dims)) {
      return false;
    }
    return std::all_of(input.shape.begin() + 2, input.shape.end(),
                       [](std::int64_t size) { return size > 0; });
  };
  if (!fits() || input.dtype != grid.dtype || !is_floating(input.dtype)) {
    fail(Fix{fmt::format("give an input of {} dims and a grid [samples, .., {}] of one dtype of "
                         "floats",
                         dims + 2, dims)},
         "{}: a grid [{}] of {} does not point into an input [{}] of {}", args.op().name(),
         text_of_list(grid.shape, ", "), to_string(grid.dtype), text_of_list(input.shape, ", "),
         to_string(input.dtype));
  }
  check_words(args, first + 2);
  Dims shape{input.shape[0], input.shape[1]};
  for (std::size_t d = 1; d <= dims; ++d) shape.push_back(grid.shape[d]);
  return shape;
}

OutputMetas meta_grid_sampler(const MetaArgs& args) {
  return {{contiguous_meta(sampled_shape(args, 0), args.tensor(0)->dtype)}};
}

/// (grad_output, input, grid, .., output_mask): the grid's gradient is always present.
OutputMetas meta_grid_sampler_backward(const MetaArgs& args) {
  const Dims shape = sampled_shape(args, 1);
  const TensorMeta &gradient = *args.tensor(0), &input = *args.tensor(1), &grid = *args.tensor(2);
  if (gradient.shape != shape || gradient.dtype != input.dtype) {
    fail(Fix{"give the gradient of the result that these arguments give"},
         "{}: the gradient is [{}] of {}, the result has the shape [{}]", args.op().name(),
         text_of_list(gradient.shape, ", "), to_string(gradient.dtype), text_of_list(shape, ", "));
  }
  return {{contiguous_meta(input.shape, input.dtype), args[6].list()[0].to_bool()},
          {contiguous_meta(grid.shape, grid.dtype)}};
}

std::vector<RuleRow> grid_sampler_rule(const RuleContext&) {
  std::vector<RuleRow> rows{uniform_row(any(0), 1, 2)};
  append_passing(rows, "sa", 1, 1, 1);
  return rows;
}

std::vector<RuleRow> grid_sampler_backward_rule(const RuleContext& context) {
  RuleRow row = uniform_row(any(0), 2, 3);
  if (!context.outputs[0].present) row.outputs[0] = RulePlacement::none();
  return {std::move(row)};
}

template <FixedText backward>
Gradients grad_grid_sampler(const GradContext& context) {
  const Arguments& args = context.inputs;
  return masked_gradients(context, backward,
                          {context.grads[0], args[0], args[1], args[2], args[3], args[4]}, 2);
}

// The gradient of backward needs the second derivatives of the weights, which the kernels do not
// return, so that it is written over the places and weights themselves, which are those of
// kernels/grid_sample.cpp.

/// One place that a point takes along one dim: [samples, points]. Beyond the input it weighs 0.
struct Tap {
  Expression place, weight, slope, bend;
};

/// Positions within a dim, and their derivatives by the grid's number.
struct Positions {
  Expression at, speed;
};

/// The sampling of one dim.
struct SampledDim {
  std::int64_t size;
  std::int64_t between, outside;  ///< interpolation_mode, padding_mode
  bool align_corners;

  double last() const { return static_cast<double>(size - 1); }

  Positions scaled(const Expression& number) const {
    const auto length = static_cast<double>(size);
    const Expression none = number * 0.0;
    if (align_corners) return {(number + 1) * (last() / 2), none + last() / 2};
    return {((number + 1) * length - 1) / 2, none + length / 2};
  }

  Positions reflected(const Positions& from) const {
    const double low = align_corners ? 0 : -0.5;
    const double span = align_corners ? last() : static_cast<double>(size);
    if (span <= 0) return {from.at * 0.0, from.speed * 0.0};
    const Expression before = from.at.lt(low), distance = (from.at - low).of("aten::abs");
    const Expression rest = distance.with("aten::fmod.Scalar", span);
    const Expression turns = (distance / span).of("aten::floor");
    const Expression back = turns.with("aten::fmod.Scalar", 2).gt(0);
    const Expression sign = before.choose(-from.speed, from.speed);
    return {back.choose(-(rest - span), rest) + low, back.choose(-sign, sign)};
  }

  Positions inside(const Positions& given) const {
    if (outside == 0) return given;
    const Positions from = outside == 2 ? reflected(given) : given;
    const Expression within = from.at.gt(0) && from.at.lt(last());
    const Expression none = from.speed * 0.0;
    const Expression end = from.at.le(0).choose(none, none + last());
    return {within.choose(from.at, end), within.choose(from.speed, none)};
  }

  Tap tap(const Expression& at, const Expression& weight, const Expression& slope,
          const Expression& bend) const {
    const Expression there = at.ge(0) && at.lt(static_cast<double>(size));
    const Expression beyond = !there;
    return {at.filled(beyond, 0).to(DType::kI64), weight.filled(beyond, 0), slope.filled(beyond, 0),
            bend.filled(beyond, 0)};
  }

  std::vector<Tap> taps(const Expression& number) const {
    const Positions free = scaled(number);
    if (between == 2) return cubic(free);
    const auto [at, speed] = inside(free);
    const Expression none = speed * 0.0;
    if (between == 1) {
      const Expression nearest = at.of("aten::round");
      return {tap(nearest, none + 1, none, none)};
    }
    const Expression low = at.of("aten::floor"), share = at - low;
    const Expression rest = -(share - 1);
    return {tap(low, rest, -speed, none), tap(low + 1, share, speed, none)};
  }

  std::vector<Tap> cubic(const Positions& free) const {
    constexpr double kA = -0.75;
    const Expression low = free.at.of("aten::floor"), share = free.at - low;
    std::vector<Tap> taps;
    for (int i = -1; i <= 2; ++i) {
      const bool near = i == 0 || i == 1;
      const double sign = i < 1 ? 1 : -1;
      const Expression x = i < 1 ? share - i : -(share - i);
      const Expression weight =
          near ? ((x * (kA + 2) - (kA + 3)) * x * x + 1) : (((x - 5) * x + 8) * x - 4) * kA;
      const Expression slope =
          near ? (x * (3 * (kA + 2)) - 2 * (kA + 3)) * x : ((x * 3 - 10) * x + 8) * kA;
      const Expression bend = near ? x * (6 * (kA + 2)) - 2 * (kA + 3) : (x * 6 - 10) * kA;
      const Expression place = inside({low + i, free.speed}).at;
      const Expression turned = slope * free.speed * sign;
      taps.push_back(tap(place, weight, turned, bend * free.speed * free.speed));
    }
    return taps;
  }
};

/// The weight of one place for each dim: `chosen[d]` along dim d, with the derivative of order
/// `order[d]`.
Expression product_of(const std::vector<Tap>& chosen, const std::array<int, 3>& order) {
  const auto factor = [&](std::size_t d) {
    return order[d] == 0 ? chosen[d].weight : order[d] == 1 ? chosen[d].slope : chosen[d].bend;
  };
  Expression product = factor(0);
  for (std::size_t d = 1; d < chosen.size(); ++d) product = product * factor(d);
  return product;
}

/// The derivatives of backward, which gives `of_input` and `of_grid` from grad_output, input and
/// grid.
class SampledTwice {
 public:
  explicit SampledTwice(const GradContext& context)
      : calls_(context.calls), dims_(input(context, 1).ndim() - 2) {
    const Arguments& args = context.inputs;
    const DTensor &image = input(context, 1), &grid = input(context, 2);
    const Dims& shape = image.shape();
    std::int64_t points = 1, places = 1;
    for (std::size_t d = 0; d < dims_; ++d) {
      points *= grid.shape()[d + 1];
      places *= shape[d + 2];
    }
    rows_ = {shape[0], shape[1], places};
    values_ = {shape[0], shape[1], points};
    points_ = {shape[0], points, static_cast<std::int64_t>(dims_)};
    flowed_ = whole(args[0].tensor(), 2, values_);
    image_ = whole(image, 2, rows_);
    if (context.grads[0].defined()) of_image_ = whole(context.grads[0], 2, rows_);
    if (context.grads[1].defined()) of_grid_ = whole(context.grads[1], 1, points_);
    const DTensor numbers = whole(grid, 1, points_);
    for (std::size_t d = 0; d < dims_; ++d) {
      const SampledDim dim{shape[d + 2], args[3].to_int(), args[4].to_int(), args[5].to_bool()};
      along_.push_back(dim.taps(component(numbers, d)));
    }
    std::vector<Tap> chosen;
    combine(chosen, Dims(shape.begin() + 2, shape.end()));
  }

  Gradients gradients(const GradContext& context) const {
    Gradients found(3);
    const auto laid_out = [&](const DTensor& x, std::size_t index) {
      const DTensor& like = input(context, index);
      const DTensor joined = gathered(calls_, x, index == 2 ? Dims{1, 2} : Dims{2});
      return cast_like(calls_, reshaped(joined, like.shape()), like);
    };
    if (!of_values_.empty()) found[0] = laid_out(total(of_values_), 0);
    if (!of_places_.empty()) found[1] = laid_out(total(of_places_), 1);
    ArgumentList components;
    for (std::size_t d = dims_; d-- > 0;) components.emplace_back(total(of_numbers_[d]));
    found[2] = laid_out(calls_.one("aten::stack", {components, 2}), 2);
    return found;
  }

 private:
  DTensor reshaped(const DTensor& x, const Dims& shape) const {
    return calls_.one("aten::reshape", {x, shape});
  }
  /// With places and points, from dim `first` on, in one; in f64, as the kernels compute.
  DTensor whole(const DTensor& x, std::size_t first, const Dims& shape) const {
    Dims dims;
    for (std::size_t d = first; d < x.ndim(); ++d) dims.push_back(static_cast<std::int64_t>(d));
    const DTensor wide = cast_to(calls_, reduced(calls_, x), DType::kF64);
    return reshaped(gathered(calls_, wide, dims), shape);
  }
  /// The grid's numbers begin with the last dim.
  Expression component(const DTensor& numbers, std::size_t d) const {
    return {calls_,
            calls_.one("aten::select.int", {numbers, 2, static_cast<std::int64_t>(dims_ - 1 - d)})};
  }
  DTensor total(const std::vector<DTensor>& terms) const {
    DTensor sum = terms.front();
    for (std::size_t i = 1; i < terms.size(); ++i) {
      sum = calls_.one("aten::add.Tensor", {sum, terms[i]});
    }
    return sum;
  }

  void combine(std::vector<Tap>& chosen, const Dims& sizes) {
    if (chosen.size() == dims_) return add(chosen, sizes);
    for (const Tap& tap : along_[chosen.size()]) {
      chosen.push_back(tap);
      combine(chosen, sizes);
      chosen.pop_back();
    }
  }

  void add(const std::vector<Tap>& chosen, const Dims& sizes) {
    Expression place = chosen[0].place;
    for (std::size_t d = 1; d < dims_; ++d) {
      place = place * static_cast<double>(sizes[d]) + chosen[d].place;
    }
    const DTensor channels = calls_.one("aten::unsqueeze", {place.to(DType::kI64), 1});
    const DTensor index = calls_.one("aten::expand", {channels, values_});
    const auto spread = [&](const Expression& x) {
      return Expression(calls_, calls_.one("aten::unsqueeze", {x, 1}));
    };
    const auto at_places = [&](const DTensor& x) {
      return Expression(calls_, calls_.one("aten::gather", {x, 2, index}));
    };
    const Expression flowed(calls_, flowed_);
    const auto over_channels = [&](const Expression& x) {
      return Expression(calls_, calls_.one("aten::sum.dim_IntList", {x, Dims{1}}));
    };
    const Expression here = at_places(image_), by_value = over_channels(flowed * here);
    if (of_image_.defined()) {
      const Expression moved = at_places(of_image_), by_moved = over_channels(flowed * moved);
      of_values_.push_back(spread(product_of(chosen, {})) * moved);
      for (std::size_t d = 0; d < dims_; ++d) {
        of_numbers_[d].push_back(product_of(chosen, once(d)) * by_moved);
      }
    }
    if (!of_grid_.defined()) return;
    for (std::size_t d = 0; d < dims_; ++d) {
      const Expression move = component(of_grid_, d);
      const Expression along = spread(product_of(chosen, once(d)) * move);
      of_values_.push_back(along * here);
      const DTensor zeros = zeros_like(calls_, image_);
      of_places_.push_back(calls_.one("aten::scatter_add", {zeros, 2, index, along * flowed}));
      for (std::size_t e = 0; e < dims_; ++e) {
        std::array<int, 3> order = once(d);
        ++order[e];
        of_numbers_[e].push_back(product_of(chosen, order) * move * by_value);
      }
    }
  }
  static std::array<int, 3> once(std::size_t d) {
    std::array<int, 3> order{};
    order[d] = 1;
    return order;
  }

  Calls& calls_;
  std::size_t dims_;
  Dims rows_, values_, points_;
  DTensor flowed_, image_, of_image_, of_grid_;
  std::vector<std::vector<Tap>> along_;
  std::vector<DTensor> of_values_, of_places_;
  std::array<std::vector<DTensor>, 3> of_numbers_;
};

Gradients grad_grid_sampler_backward(const GradContext& context) {
  return SampledTwice(context).gradients(context);
}

/// grid_sampler(input, grid, ..)
Results grid_sampler_parts(Calls& calls, const Arguments& args) {
  const bool room = args[0].tensor().ndim() == 5;
  return {calls.one(room ? "aten::grid_sampler_3d" : "aten::grid_sampler_2d", args)};
}

constexpr const char* kSampled = "samples go by themselves";

// Sorted by name.
// clang-format off
constexpr Row kGridRows[] = {
    composite("grid_sampler"_op, grid_sampler_parts, "grid_sampler_2d or grid_sampler_3d"),
    {"grid_sampler_2d"_op, meta_grid_sampler, grid_sampler_rule, KernelId::kGridSample,
     {grad_grid_sampler<"aten::grid_sampler_2d_backward">, "input grid"}, kSampled, 0, {1}},
    {"grid_sampler_2d_backward"_op, meta_grid_sampler_backward, grid_sampler_backward_rule,
     KernelId::kGridSampleBackward, {grad_grid_sampler_backward, "grad_output input grid"},
     kSampled, 0, {1}},
    {"grid_sampler_3d"_op, meta_grid_sampler, grid_sampler_rule, KernelId::kGridSample,
     {grad_grid_sampler<"aten::grid_sampler_3d_backward">, "input grid"}, kSampled, 0, {1}},
    {"grid_sampler_3d_backward"_op, meta_grid_sampler_backward, grid_sampler_backward_rule,
     KernelId::kGridSampleBackward, {grad_grid_sampler_backward, "grad_output input grid"},
     kSampled, 0, {1}},
};
// clang-format on

}  // namespace

void register_grid_sample(OpRegistry& registry) { add_rows(registry, kGridRows); }

}  // namespace shardlab
