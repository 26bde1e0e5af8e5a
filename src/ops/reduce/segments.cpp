// segment_reduce: rows of different lengths one behind the other along one dim. The other dims are
// independent; the beginnings of segments are cut with the dims in front of them.
#include <string>

#include "kernels/scatter_reduction.h"
#include "ops/family.h"

namespace shardlab {
namespace {

using grad::Gradients;

[[noreturn]] void refuse_segments(const char* fix, const std::string& what) {
  fail(Fix{fix}, "segment_reduce: {}", what);
}

void check_bounds(const TensorMeta& data, const TensorMeta& bounds, std::int64_t axis) {
  if (bounds.dtype != DType::kI64 && bounds.dtype != DType::kI32) {
    refuse_segments("cast them: lengths.long()", fmt::format("lengths and offsets are i64 or i32, "
                                                             "not {}",
                                                             to_string(bounds.dtype)));
  }
  const auto ndim = static_cast<std::int64_t>(data.shape.size());
  const auto dims = static_cast<std::int64_t>(bounds.shape.size());
  if (dims == 0 || dims > ndim || axis != dims - 1) {
    refuse_segments("give them the dims in front of axis, and one for the segments",
                    fmt::format("lengths or offsets of {} dims do not fit axis {} of {} dims", dims,
                                axis, ndim));
  }
  for (std::size_t d = 0; d + 1 < bounds.shape.size(); ++d) {
    if (bounds.shape[d] == data.shape[d]) continue;
    refuse_segments("give as many rows of lengths as the data has in front of axis",
                    fmt::format("dim {} is {} of the data, {} of the lengths", d, data.shape[d],
                                bounds.shape[d]));
  }
}

std::int64_t axis_of(const Argument& axis, std::size_t ndim) {
  const std::int64_t dim = axis.to_int();
  return dim < 0 ? dim + static_cast<std::int64_t>(ndim) : dim;
}

/// The arguments of both ops; a reduction needs no more than these.
struct Segmented {
  const TensorMeta& data;
  const std::string& reduce;
  const TensorMeta* lengths;
  const TensorMeta* offsets;
  const Argument& axis;
};

/// The shape of the result.
///   fails  Value: no argument gives the beginnings of segments, or it does not fit the data
Dims reduced_shape(const Segmented& call) {
  if (!segment_reduction_named(call.reduce)) {
    refuse_segments("choose sum, mean, max, min or prod", "reduce is '" + call.reduce + "'");
  }
  if (!is_floating(call.data.dtype)) {
    refuse_segments("cast the data: x.float()",
                    fmt::format("takes floats, not {}", to_string(call.data.dtype)));
  }
  const TensorMeta* bounds = call.offsets ? call.offsets : call.lengths;
  if (bounds == nullptr) {
    refuse_segments("give lengths or offsets", "nothing says where segments begin");
  }
  const std::int64_t axis = axis_of(call.axis, call.data.shape.size());
  check_bounds(call.data, *bounds, axis);
  const std::int64_t count = bounds->shape.back() - (call.offsets ? 1 : 0);
  if (count < 0) refuse_segments("give one offset more than segments", "there are no offsets");
  Dims shape = call.data.shape;
  shape[static_cast<std::size_t>(axis)] = count;
  return shape;
}

/// segment_reduce(data, reduce, *, lengths, indices, offsets, axis, unsafe, initial)
OutputMetas meta_segment_reduce(const MetaArgs& args) {
  const TensorMeta& data = *args.tensor(0);
  if (args.tensor(3) != nullptr) {
    refuse_segments("give lengths or offsets", "indices are not supported, as in the reference");
  }
  const Dims shape =
      reduced_shape({data, args[1].string(), args.tensor(2), args.tensor(4), args[5]});
  return {{contiguous_meta(shape, data.dtype)}};
}

/// _segment_reduce_backward(grad, output, data, reduce, *, lengths, offsets, axis, initial)
OutputMetas meta_segment_reduce_backward(const MetaArgs& args) {
  const TensorMeta& data = *args.tensor(2);
  const Dims shape =
      reduced_shape({data, args[3].string(), args.tensor(4), args.tensor(5), args[6]});
  check_gradient_shape(args, args.tensor(0)->shape, shape, "the output");
  check_argument_shape(args, 1, shape);
  return {{contiguous_meta(data.shape, data.dtype)}};
}

/// `data` tensors have the data's dims, all others are lengths or offsets.
template <std::size_t data, std::size_t axis_argument>
std::vector<RuleRow> segment_rule(const RuleContext& context) {
  const std::int64_t axis = axis_of(context.schema.args[axis_argument], ndim_of(context));
  std::vector<RuleRow> rows;
  for (std::int64_t dim = 0; dim < ndim_of(context); ++dim) {
    if (dim == axis) continue;
    RuleRow row{{any(dim)}, {}};
    for (std::size_t i = 0; i < context.tensors.size(); ++i) {
      row.inputs.push_back(i < data || dim < axis ? any(dim) : whole());
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Terms of the first tensor give terms of the result.
void append_terms(std::vector<RuleRow>& rows, const RuleContext& context) {
  append_passing(rows, "sa", 1, 1, context.tensors.size() - 1);
}

/// Sums of terms are terms of sums, where nothing is added to them.
std::vector<RuleRow> segment_reduce_rule(const RuleContext& context) {
  const Arguments& args = context.schema.args;
  std::vector<RuleRow> rows = segment_rule<1, 5>(context);
  const bool linear = args[1].string() == "sum" || args[1].string() == "mean";
  if (!linear || !args[7].is_none()) return rows;
  append_terms(rows, context);
  return rows;
}

/// The gradient is linear in the incoming one.
std::vector<RuleRow> segment_reduce_backward_rule(const RuleContext& context) {
  std::vector<RuleRow> rows = segment_rule<3, 6>(context);
  append_terms(rows, context);
  return rows;
}

Gradients grad_segment_reduce(const GradContext& context) {
  const Arguments& args = context.inputs;
  return {context.calls.one("aten::_segment_reduce_backward",
                            {context.grads[0], context.outputs[0], args[0], args[1], args[2],
                             args[4], args[5], args[7]})};
}

// Sorted by name.
// clang-format off
constexpr Row kSegmentRows[] = {
    {"_segment_reduce_backward"_op, meta_segment_reduce_backward, segment_reduce_backward_rule,
     KernelId::kSegmentReduceBackward, {}, "what is not along the segments is apart", kAllowUneven,
     {1, "axis"}},
    {"segment_reduce"_op, meta_segment_reduce, segment_reduce_rule, KernelId::kSegmentReduce,
     {grad_segment_reduce, "data lengths offsets result"},
     "what is not along the segments is apart", kAllowUneven, {1, "axis"}},
};
// clang-format on

}  // namespace

void register_segments(OpRegistry& registry) { add_rows(registry, kSegmentRows); }

}  // namespace shardlab
