// Ops along one dim, which must be whole on every rank; all others may be cut.
#include <algorithm>

#include "kernels/kernel_id.h"
#include "ops/arguments.h"
#include "ops/derive.h"
#include "ops/gradient_shape.h"
#include "ops/meta.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace shardlab {
namespace {

std::vector<OutputMeta> meta_softmax(const MetaArgs& args) {
  TensorMeta meta = *args.tensor(0);
  wrap_dim(args[1].to_int(), meta.shape.size());
  if (args[2].to_bool()) meta.dtype = DType::kF32;
  meta.stride = preserved_strides(meta);
  return {{meta}};
}

std::vector<OutputMeta> meta_softmax_backward(const MetaArgs& args) {
  const TensorMeta &gradient = *args.tensor(0), &output = *args.tensor(1);
  wrap_dim(args[2].to_int(), output.shape.size());
  check_gradient_shape(args, gradient.shape, output.shape, "an output");
  return {elementwise_meta(args, tensor_operands(args), args[3].dtype())};
}

std::vector<OutputMeta> meta_cumsum(const MetaArgs& args) {
  TensorMeta meta = *args.tensor(0);
  wrap_dim(args[1].to_int(), meta.shape.size());
  const Argument& dtype = argument_or_none(args, "dtype");
  meta.dtype = dtype.is_dtype()          ? dtype.dtype()
               : is_integral(meta.dtype) ? DType::kI64
                                         : meta.dtype;
  meta.stride = preserved_strides(meta);
  return {{meta}};
}

std::vector<OutputMeta> meta_topk(const MetaArgs& args) {
  const TensorMeta& input = *args.tensor(0);
  const std::int64_t dim = wrap_dim(args[2].to_int(), input.shape.size());
  const std::int64_t k = args[1].to_int();
  Dims shape = input.shape;
  const std::int64_t length = shape.empty() ? 1 : shape[static_cast<std::size_t>(dim)];
  if (k < 0 || k > length) {
    fail(ErrorKind::kValue, "{}: {} elements wanted of {}", args.op().name(), k, length);
  }
  if (!shape.empty()) shape[static_cast<std::size_t>(dim)] = k;
  return {{contiguous_meta(shape, input.dtype)}, {contiguous_meta(shape, DType::kI64)}};
}

std::vector<OutputMeta> meta_sort(const MetaArgs& args) {
  TensorMeta values = *args.tensor(0);
  wrap_dim(argument_or_none(args, "dim").to_int(), values.shape.size());
  values.stride = preserved_strides(values);
  TensorMeta indices = values;
  indices.dtype = DType::kI64;
  return {{values}, {indices}};
}

std::vector<RuleRow> others_rule(const RuleContext& context) {
  const std::int64_t dim = wrap_dim(context.schema.arg("dim").to_int(), context.tensors[0]->ndim());
  return shard_all_dims_but(context, dim, context.tensors.size());
}

std::vector<RuleRow> cumsum_rule(const RuleContext& context) {
  std::vector<RuleRow> rows = others_rule(context);
  append_passing(rows, "sa", 1, 1);
  return rows;
}

struct AlongDimRow {
  const char* schema;
  MetaFn meta;
  DimRuleFn rule;
  KernelId kernel;
  Variants variants;
  const char* why;
};

constexpr const char* kOrder = "order and positions count within the whole dim";

constexpr AlongDimRow kRows[] = {
    // sorted by name
    {"_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
     meta_softmax,
     others_rule,
     KernelId::kLogSoftmax,
     {false, "out"},
     "normalised by a sum over the dim"},
    {"_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType "
     "input_dtype) -> Tensor",
     meta_softmax_backward,
     others_rule,
     KernelId::kLogSoftmaxBackward,
     {false, "out"},
     "sums the gradient over the dim"},
    {"_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
     meta_softmax,
     others_rule,
     KernelId::kSoftmax,
     {false, "out"},
     "normalised by a sum over the dim"},
    {"_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) "
     "-> Tensor",
     meta_softmax_backward,
     others_rule,
     KernelId::kSoftmaxBackward,
     {false,
      "_softmax_backward_data.out(Tensor grad_output, Tensor output, int dim, ScalarType "
      "input_dtype, *, Tensor(a!) grad_input) -> Tensor(a!)"},
     "sums the gradient over the dim"},
    {"cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
     meta_cumsum,
     cumsum_rule,
     KernelId::kCumsum,
     {true, "out"},
     "linear; sums run over the whole dim"},
    {"sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
     meta_sort,
     others_rule,
     KernelId::kSort,
     {false, "values"},
     kOrder},
    {"sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor "
     "values, Tensor indices)",
     meta_sort,
     others_rule,
     KernelId::kSortStable,
     {false, "values_stable"},
     kOrder},
    {"topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor "
     "values, Tensor indices)",
     meta_topk,
     others_rule,
     KernelId::kTopk,
     {false, "values"},
     kOrder},
};

}  // namespace

void register_along_dim(OpRegistry& registry) {
  for (const AlongDimRow& entry : kRows) {
    OpRow row;
    row.op = parse_op_schema(entry.schema);
    row.meta = entry.meta;
    row.rule = entry.rule;
    row.kernel = entry.kernel;
    row.flags = kAllowUneven;
    row.why = entry.why;
    add_with_variants(registry, std::move(row), entry.variants);
  }
}

}  // namespace shardlab
