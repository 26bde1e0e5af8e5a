// Convolutions: the batch dim may be cut, and the last dim where windows do not overlap. Kernels
// and the halo exchange come later.
#include "ops/derive.h"
#include "ops/meta.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace shardlab {
namespace {

// convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation,
// transposed, output_padding, groups, output_mask)
enum Position : std::size_t {
  kBiasSizes = 3, kStride = 4, kPadding = 5, kDilation = 6, kTransposed = 7, kOutputMask = 10,
};

Dims bias_shape(const MetaArgs& args) {
  if (args[kBiasSizes].is_ints()) return args[kBiasSizes].ints();
  return Dims{args.tensor(0)->shape[1]};
}

std::vector<OutputMeta> meta_convolution_backward(const MetaArgs& args) {
  const TensorMeta& input = *args.tensor(1);
  const TensorMeta& weight = *args.tensor(2);
  const ArgumentList& mask = args[kOutputMask].list();
  std::vector<OutputMeta> outputs = {{contiguous_meta(input.shape, input.dtype)},
                                     {contiguous_meta(weight.shape, weight.dtype)},
                                     {contiguous_meta(bias_shape(args), weight.dtype)}};
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i].present = mask[i].to_bool();
  return outputs;
}

/// Windows tile the last dim: a piece cut at a window's edge needs no neighbour.
bool tiles_last_dim(const RuleContext& context) {
  const Arguments& args = context.schema.args;
  const Dims& input = context.tensors[1]->shape();
  const Dims& weight = context.tensors[2]->shape();
  return input.size() == weight.size() && input.size() >= 3 && input.size() <= 5 &&
         !args[kTransposed].to_bool() && args[kPadding].ints().back() == 0 &&
         args[kDilation].ints().back() == 1 && args[kStride].ints().back() == weight.back();
}

RuleRow cut_row(const RuleContext& context, const RulePlacement& cut) {
  const RulePlacement sum = placement_of_letter('s');
  const bool has_bias = !context.schema.args[kBiasSizes].is_none();
  return {{cut, sum, has_bias ? sum : RulePlacement::none()}, {cut, cut, placement_of_letter('r')}};
}

std::vector<RuleRow> convolution_backward_rule(const RuleContext& context) {
  std::vector<RuleRow> rows = {cut_row(context, RulePlacement::any(0))};
  if (tiles_last_dim(context)) {
    const auto last = static_cast<std::int64_t>(context.tensors[1]->ndim()) - 1;
    rows.push_back(cut_row(context, RulePlacement::of(Placement::shard(last))));
  }
  return rows;
}

/// The last dim is cut by one mesh dim at most, at edges of windows.
const char* window_filter(const RuleContext& context, std::span<const Placements> inputs) {
  const Dims& shape = context.tensors[1]->shape();
  const auto last = static_cast<std::int64_t>(shape.size()) - 1;
  std::int64_t pieces = 0;
  for (std::size_t i = 0; i < inputs[1].size(); ++i) {
    if (!inputs[1][i].is_shard(last)) continue;
    if (pieces != 0 || inputs[1][i].is_strided_shard()) return "the last dim is cut more than once";
    pieces = context.schema.layout->size(i);
  }
  if (pieces == 0) return nullptr;
  const std::int64_t step = context.schema.args[kStride].ints().back() * pieces;
  return shape.back() % step == 0 ? nullptr : "pieces do not end at the edge of a window";
}

}  // namespace

void register_convolution(OpRegistry& registry) {
  OpRow row;
  row.op = parse_op_schema(
      "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, "
      "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] "
      "output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)");
  row.meta = meta_convolution_backward;
  row.rule = convolution_backward_rule;
  row.filter = window_filter;
  row.handler = HandlerId::kConvolutionBackward;
  row.flags = kIncomplete;
  row.why = "gradients of shared weights sum over the batch";
  registry.add(std::move(row));
}

}  // namespace shardlab
