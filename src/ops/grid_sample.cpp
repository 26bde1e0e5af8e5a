// Values of an input wherever a grid points to. Samples go by themselves; the values are linear in
// the input, so that pending sums of it pass.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/fix.h"
#include "kernels/kernel_id.h"
#include "ops/arguments.h"
#include "ops/gradient_math.h"
#include "ops/meta.h"
#include "ops/register.h"
#include "ops/rows.h"
#include "ops/rules.h"

namespace shardlab {
namespace {

using namespace grad;

/// "grid_sampler_2d": [samples, channels, ..2 sizes].
std::size_t sampled_dims(const OpDescriptor& op) {
  return op.base.find("3d") == std::string::npos ? 2 : 3;
}

void check_words(const MetaArgs& args, std::size_t first) {
  const std::int64_t between = args[first].to_int(), outside = args[first + 1].to_int();
  const std::int64_t most = sampled_dims(args.op()) == 2 ? 2 : 1;
  if (between >= 0 && between <= most && outside >= 0 && outside <= 2) return;
  fail(ErrorKind::kValue,
       Fix{"give interpolation_mode 0 (linear), 1 (nearest) or, in a plane, 2 (cubic), and "
           "padding_mode 0 (zeros), 1 (border) or 2 (reflection)"},
       "{}: interpolation_mode {} with padding_mode {} is none that it knows", args.op().name(),
       between, outside);
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
    fail(ErrorKind::kValue,
         Fix{fmt::format("give an input of {} dims and a grid [samples, .., {}] of one dtype of "
                         "floats",
                         dims + 2, dims)},
         "{}: a grid [{}] of {} does not point into an input [{}] of {}", args.op().name(),
         fmt::join(grid.shape, ", "), to_string(grid.dtype), fmt::join(input.shape, ", "),
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

/// (grad_output, input, grid, .., output_mask): the grid's gradient is always there.
OutputMetas meta_grid_sampler_backward(const MetaArgs& args) {
  const Dims shape = sampled_shape(args, 1);
  const TensorMeta &gradient = *args.tensor(0), &input = *args.tensor(1), &grid = *args.tensor(2);
  if (gradient.shape != shape || gradient.dtype != input.dtype) {
    fail(ErrorKind::kValue, Fix{"give the gradient of the result that these arguments give"},
         "{}: the gradient is [{}] of {}, the result has the shape [{}]", args.op().name(),
         fmt::join(gradient.shape, ", "), to_string(gradient.dtype), fmt::join(shape, ", "));
  }
  return {{contiguous_meta(input.shape, input.dtype), args[6].list()[0].to_bool()},
          {contiguous_meta(grid.shape, grid.dtype)}};
}

std::vector<RuleRow> grid_sampler_rule(const RuleContext&) {
  std::vector<RuleRow> rows{uniform_row(any(0), 1, 2)};
  for (const char kind : {'s', 'a'}) {
    const RulePlacement pending = placement_of_letter(kind);
    rows.push_back({{pending}, {pending, whole()}});
  }
  return rows;
}

std::vector<RuleRow> grid_sampler_backward_rule(const RuleContext& context) {
  RuleRow row = uniform_row(any(0), 2, 3);
  if (!context.outputs[0].present) row.outputs[0] = RulePlacement::none();
  return {std::move(row)};
}

template <const char* const& backward>
Gradients grad_grid_sampler(const GradContext& context) {
  const Arguments& args = context.inputs;
  const ArgumentList mask{context.needs(0), context.needs(1)};
  const Results results = context.calls(
      backward, {context.grads[0], args[0], args[1], args[2], args[3], args[4], mask});
  Gradients gradients(2);
  for (const std::size_t i : {0, 1}) {
    if (context.needs(i)) gradients[i] = results[i].tensor();
  }
  return gradients;
}
constexpr const char* kPlaneBack = "aten::grid_sampler_2d_backward";
constexpr const char* kRoomBack = "aten::grid_sampler_3d_backward";

/// grid_sampler(input, grid, ..)
Results grid_sampler_parts(Calls& calls, const Arguments& args) {
  const bool room = args[0].tensor().ndim() == 5;
  return {calls.one(room ? "aten::grid_sampler_3d" : "aten::grid_sampler_2d", args)};
}

constexpr const char* kSampled = "samples go by themselves";

// Sorted by name.
// clang-format off
constexpr Row kGridRows[] = {
    {"grid_sampler", nullptr, {}, grid_sampler_parts, {}, {}, "grid_sampler_2d or grid_sampler_3d"},
    {"grid_sampler_2d", meta_grid_sampler, grid_sampler_rule, KernelId::kGridSample,
     {nullptr, "grid_sampler_2d.out"}, {grad_grid_sampler<kPlaneBack>, "input grid"}, kSampled, 0,
     {1}},
    {"grid_sampler_2d_backward", meta_grid_sampler_backward, grid_sampler_backward_rule,
     KernelId::kGridSampleBackward, {nullptr, "grid_sampler_2d_backward.out"}, {}, kSampled, 0,
     {1}},
    {"grid_sampler_3d", meta_grid_sampler, grid_sampler_rule, KernelId::kGridSample,
     {nullptr, "grid_sampler_3d.out"}, {grad_grid_sampler<kRoomBack>, "input grid"}, kSampled, 0,
     {1}},
    {"grid_sampler_3d_backward", meta_grid_sampler_backward, grid_sampler_backward_rule,
     KernelId::kGridSampleBackward, {nullptr, "grid_sampler_3d_backward.out"}, {}, kSampled, 0,
     {1}},
};
// clang-format on

}  // namespace

void register_grid_sample(OpRegistry& registry) { add_rows(registry, kGridRows); }

}  // namespace shardlab
