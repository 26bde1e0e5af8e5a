// Shapes, dtypes and strides of results. The strides of a pointwise result follow the operands'
// memory order as in TensorIterator: dims are sorted by their strides in the first operand whose
// strides for two of them differ. This comparison is not transitive, so the sort itself has to be
// the reference's.
#include "ops/core/meta.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "kernels/promotion.h"
#include "ops/core/arguments.h"
#include "ops/core/derived.h"
#include "ops/core/factor_rule.h"
#include "ops/core/operands.h"
#include "schema/list_element.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

/// Stride of broadcast dim `dim` of `ndim` in an operand; 0 where the operand is stretched.
std::int64_t broadcast_stride(const TensorMeta& operand, std::size_t dim, std::size_t ndim) {
  const std::size_t missing = ndim - operand.shape.size();
  if (dim < missing || operand.shape[dim - missing] == 1) return 0;
  return operand.stride[dim - missing];
}

/// Whether dim `a` is outside of dim `b`: > 0 yes, < 0 no, 0 undecided by the operands.
int compare_dims(const Dims& shape, std::span<const TensorMeta* const> operands, std::size_t a,
                 std::size_t b) {
  for (const TensorMeta* operand : operands) {
    const std::int64_t stride_a = broadcast_stride(*operand, a, shape.size());
    const std::int64_t stride_b = broadcast_stride(*operand, b, shape.size());
    if (stride_a == 0 || stride_b == 0) continue;
    if (stride_a != stride_b) return stride_a > stride_b ? 1 : -1;
    if (shape[a] > shape[b]) return 1;
  }
  return 0;
}

/// Dims from innermost to outermost. The comparison is not a total order, so the sort is the
/// reference's own: insertion that steps over undecided neighbours.
InlineVector<std::size_t, 5> memory_order(const Dims& shape,
                                          std::span<const TensorMeta* const> operands) {
  InlineVector<std::size_t, 5> order;
  for (std::size_t i = shape.size(); i-- > 0;) order.push_back(i);
  for (std::size_t i = 1; i < order.size(); ++i) {
    std::size_t moving = i;
    for (std::size_t j = i; j-- > 0;) {
      const int comparison = compare_dims(shape, operands, order[j], order[moving]);
      if (comparison > 0) {
        std::swap(order[j], order[moving]);
        moving = j;
      } else if (comparison < 0) {
        break;
      }
    }
  }
  return order;
}

Dims strides_in_order(const Dims& shape, const InlineVector<std::size_t, 5>& order) {
  Dims strides(shape.size());
  std::int64_t stride = 1;
  for (const std::size_t dim : order) {
    strides[dim] = stride;
    stride *= std::max<std::int64_t>(shape[dim], 1);
  }
  return strides;
}

OutputMeta inplace_meta(const OpRow& row, const OutputMeta& result, const TensorMeta& target) {
  check_written_shape(row, result.meta.shape, target.shape);
  check_category(row, result.meta.dtype, target.dtype);
  return {target};
}

OutputMeta out_meta(const OpRow& row, const OutputMeta& result, const TensorMeta& out) {
  check_category(row, result.meta.dtype, out.dtype);
  TensorMeta meta = result.meta.shape == out.shape ? out : result.meta;
  meta.dtype = out.dtype;
  return {meta};
}

/// Numbers that are stored, or that scale an operand, have to be in range. Numbers in place of an
/// operand wrap.
void check_numbers(const MetaArgs& args, const OutputMetas& results) {
  if (results.empty() || !is_integral(results[0].meta.dtype)) return;
  const DType dtype = results[0].meta.dtype;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!args[i].is_scalar() || representable(args[i].scalar(), dtype)) continue;
    const std::string_view name = args.op().arguments[i].name;
    if (name != "value" && name != "fill_value" && name != "alpha") continue;
    fail(Fix{"cast the tensor first, to torch.int64 or torch.float32"},
         "{}: {} {} is out of the range of {}", args.op().name(), name, args[i].text(),
         to_string(dtype));
  }
}

OutputMetas checked_metas(const OpRow& row, const MetaArgs& args) {
  OutputMetas results = row.meta(args);
  check_numbers(args, results);
  return results;
}

std::size_t out_count(const OpRow& row) {
  if (!row.out_variant()) return 0;
  return static_cast<std::size_t>(std::ranges::count_if(
      row.op.arguments, [](const SchemaArgument& argument) { return argument.is_out; }));
}

/// Results of the base row written to the targets of a derived one.
OutputMetas derived_metas(const OpRow& row, const Arguments& args, const MetaList& metas) {
  const std::size_t outs = out_count(row);
  OutputMetas results = unwritten_metas(row, args, metas);
  if (row.op.returns.empty()) return {};
  if (row.inplace()) return {inplace_meta(row, results[0], *metas[0])};
  for (std::size_t i = 0; i < outs; ++i) {
    const TensorMeta* out = metas[metas.size() - outs + i];
    if (out != nullptr) results[i] = out_meta(row, results[i], *out);
  }
  return results;
}

/// The metas of the tensor arguments of element `k` of a foreach call.
MetaList element_metas(const OpRow& row, const MetaArgs& args, std::size_t k) {
  MetaList metas;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const SchemaType& type = row.op.arguments[i].type;
    if (type.is_tensor()) metas.push_back(type.is_list ? args.tensors(i)[k] : args.tensor(i));
  }
  return metas;
}

/// Each element's results are those of the op on one tensor.
OutputMetas metas_of_elements(const OpRow& row, const Arguments& args, MetaList metas) {
  const std::size_t count = element_count(row, args);
  const MetaArgs lists(row.op, args, std::move(metas));
  OutputMetas outputs;
  for (std::size_t k = 0; k < count; ++k) {
    const OutputMetas results = infer_metas(*element_row(row), element_arguments(row, args, k),
                                            element_metas(row, lists, k));
    outputs.insert(outputs.end(), results.begin(), results.end());
  }
  if (row.op.returns.empty()) outputs.clear();
  return outputs;
}

}  // namespace

void check_written_shape(const OpRow& row, const Dims& result, const Dims& target) {
  if (result == target) return;
  fail(Fix{"use the op that returns a new tensor: x + y, not x += y"},
       "{}: the result has shape [{}]; the tensor that it is written to, [{}], must have the same",
       row.name(), text_of_list(result, ", "), text_of_list(target, ", "));
}

void check_argument_shape(const MetaArgs& args, std::size_t index, const Dims& shape) {
  const TensorMeta* tensor = args.tensor(index);
  if (tensor == nullptr || tensor->shape == shape) return;
  fail(Fix{fmt::format("give it the shape [{}]", text_of_list(shape, ", "))},
       "{}: {} has the shape [{}], which does not fit the input", args.op().name(),
       args.op().arguments[index].name, text_of_list(tensor->shape, ", "));
}

void check_argument_dtype(const MetaArgs& args, std::size_t index, std::size_t like) {
  const TensorMeta* tensor = args.tensor(index);
  const DType dtype = args.tensor(like)->dtype;
  if (tensor == nullptr || tensor->dtype == dtype) return;
  const std::string_view name = args.op().arguments[index].name;
  const std::string_view other = args.op().arguments[like].name;
  fail(Fix{fmt::format("cast one of them: {}.to({}.dtype)", name, other)},
       "{}: {} is {}, {} is {}; both must have one dtype", args.op().base, name,
       to_string(tensor->dtype), other, to_string(dtype));
}

void check_category(const OpRow& row, DType result, DType target) {
  const std::string_view base = row.op.base;
  const bool extrema = base == "aten::amax" || base == "aten::amin" || base == "aten::aminmax";
  if (extrema ? result == target : category_of(result) <= category_of(target)) return;
  fail(Fix{fmt::format("write into a tensor of dtype {}, or use the op that returns a new one",
                       to_string(result))},
       "{}: a result of dtype {} cannot be written to a {} tensor", row.name(), to_string(result),
       to_string(target));
}

OutputMetas unwritten_metas(const OpRow& row, const Arguments& args, const MetaList& metas) {
  const std::size_t outs = out_count(row);
  const std::size_t base_count = args.size() - outs;
  const bool same_arguments = row.base->op.arguments.size() == base_count;
  const Arguments base_args =
      same_arguments
          ? Arguments(args.begin(), args.begin() + static_cast<std::ptrdiff_t>(base_count))
          : base_arguments(row, args);
  MetaList base_metas(metas.begin(), metas.end() - static_cast<std::ptrdiff_t>(outs));
  return checked_metas(*row.base, MetaArgs(row.base->op, base_args, std::move(base_metas)));
}

namespace {

// int[3] takes three numbers or one for all. Whether an empty list means other values, as strides
// mean a kernel's sizes, is decided by the op.
void check_lists(const OpRow& row, const Arguments& args) {
  for (std::size_t i = 0; i < row.op.arguments.size(); ++i) {
    const SchemaArgument& argument = row.op.arguments[i];
    if (argument.type.list_size < 2 || i >= args.size() || !args[i].is_ints()) continue;
    const std::int64_t count = std::ssize(args[i].ints());
    if (count < 2 || count == argument.type.list_size) continue;
    fail(Fix{"give one number for all of them, or one for each"},
         "{}: {} has {} numbers; it must have {}, or one", row.name(), argument.name, count,
         argument.type.list_size);
  }
}

bool needs_tensor(const SchemaType& type) {
  return type.is_tensor() && !type.is_list && !type.is_optional;
}

[[noreturn]] void refuse_no_tensor(const OpRow& row, const Arguments& args, std::size_t i) {
  fail(Fix{"pass a tensor"}, "{}: {} is {}; it must be a tensor", row.name(),
       row.op.arguments[i].name, args[i].text());
}

// PyTorch decides pointwise calls with a number where the schema has a tensor: add.Tensor(x, 1.0).
bool represents_tensor(const OpRow& row, const Argument& argument) {
  return argument.is_scalar() && std::holds_alternative<PointwiseRule>(row.rule);
}

void check_metas(const OpRow& row, const Arguments& args, const MetaList& metas) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const SchemaType& type = row.op.arguments[i].type;
    if (!type.is_tensor()) continue;
    const bool given =
        (next < metas.size() && metas[next] != nullptr) || represents_tensor(row, args[i]);
    if (needs_tensor(type) && !given) refuse_no_tensor(row, args, i);
    next += !type.is_list ? 1 : (args[i].is_list() ? args[i].list().size() : 0);
  }
}

OutputMetas inferred_metas(const OpRow& row, const Arguments& args, MetaList metas) {
  check_metas(row, args, metas);
  check_lists(row, args);
  if (element_row(row) != nullptr) return metas_of_elements(row, args, std::move(metas));
  if (row.base != nullptr && (row.inplace() || row.out_variant())) {
    return derived_metas(row, args, metas);
  }
  if (row.meta == nullptr) {
    const auto* rule = std::get_if<FactorRule>(&row.rule);
    if (rule == nullptr) return {};
    return factor_metas(*rule, MetaArgs(row.op, args, std::move(metas)));
  }
  return checked_metas(row, MetaArgs(row.op, args, std::move(metas)));
}

}  // namespace

void check_tensors(const OpRow& row, const Arguments& args) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    const bool given = args[i].is_tensor() && args[i].tensor().defined();
    if (needs_tensor(row.op.arguments[i].type) && !given) refuse_no_tensor(row, args, i);
  }
}

void refuse_short_operands(const OpRow& row, const OutOfRange& error) {
  fail(Fix{fmt::format("shardlab ops {} says what it takes", row.op.base)},
       "{}: an operand has too few dims, or a list too few numbers: {}", row.name(),
       error.summary());
}

OutputMetas infer_metas(const OpRow& row, const Arguments& args, MetaList metas) {
  try {
    return inferred_metas(row, args, std::move(metas));
  } catch (const OutOfRange& error) {
    refuse_short_operands(row, error);
  }
}

Dims broadcast_shapes(const OpDescriptor& op, std::span<const TensorMeta* const> operands) {
  Dims shape;
  for (const TensorMeta* operand : operands) {
    const Dims& other = operand->shape;
    while (shape.size() < other.size()) shape.insert(0, 1);
    const std::size_t missing = shape.size() - other.size();
    for (std::size_t i = 0; i < other.size(); ++i) {
      std::int64_t& size = shape[missing + i];
      if (size == 1) {
        size = other[i];
      } else if (other[i] != 1 && other[i] != size) {
        fail(Fix{"give equal sizes, or 1 where a tensor repeats"},
             "{}: sizes {} and {} of dim {} do not broadcast", op.name(), size, other[i],
             missing + i);
      }
    }
  }
  return shape;
}

Dims elementwise_strides(const Dims& shape, std::span<const TensorMeta* const> operands) {
  bool contiguous = true;
  for (const TensorMeta* operand : operands) {
    contiguous =
        contiguous && operand->shape == shape && is_contiguous(operand->shape, operand->stride);
  }
  if (contiguous) return contiguous_strides(shape);
  return strides_in_order(shape, memory_order(shape, operands));
}

Operands positional_operands(const MetaArgs& args) {
  Operands operands = tensor_operands(args);
  const std::size_t count = args.op().positional_count();
  for (std::size_t i = 0; i < count; ++i) {
    const SchemaArgument& declared = args.op().arguments[i];
    if (args[i].is_scalar() && !declared.type.is_tensor() && declared.name != "alpha") {
      operands.numbers.push_back(args[i].scalar());
    }
  }
  return operands;
}

Operands tensor_operands(const MetaArgs& args) {
  Operands operands;
  const std::size_t count = args.op().positional_count();
  for (std::size_t i = 0; i < count; ++i) {
    const SchemaType& type = args.op().arguments[i].type;
    if (!type.is_tensor() || type.is_list) continue;
    if (args[i].is_scalar()) {
      operands.numbers.push_back(args[i].scalar());
    } else if (args.tensor(i) != nullptr) {
      operands.tensors.push_back(args.tensor(i));
    }
  }
  return operands;
}

DType result_dtype(const Operands& operands) {
  Promotion promotion;
  for (const TensorMeta* tensor : operands.tensors) {
    promotion.add_tensor(tensor->dtype, !tensor->shape.empty());
  }
  for (const Scalar& scalar : operands.numbers) promotion.add_number(scalar.category());
  return promotion.result();
}

OutputMeta elementwise_meta(const MetaArgs& args, const Operands& operands, DType dtype) {
  TensorMeta meta;
  meta.shape = broadcast_shapes(args.op(), operands.tensors);
  meta.stride = elementwise_strides(meta.shape, operands.tensors);
  meta.dtype = dtype;
  return {meta};
}

OutputMetas meta_promoted(const MetaArgs& args) {
  const Operands operands = positional_operands(args);
  return {elementwise_meta(args, operands, result_dtype(operands))};
}

OutputMetas meta_promoted_float(const MetaArgs& args) {
  const Operands operands = positional_operands(args);
  return {elementwise_meta(args, operands, float_dtype(result_dtype(operands)))};
}

OutputMetas meta_tensors(const MetaArgs& args) {
  const Operands operands = tensor_operands(args);
  return {elementwise_meta(args, operands, result_dtype(operands))};
}

OutputMetas meta_bool(const MetaArgs& args) {
  return {elementwise_meta(args, tensor_operands(args), DType::kBool)};
}

OutputMetas meta_first(const MetaArgs& args) {
  const Operands operands = tensor_operands(args);
  if (operands.tensors.empty()) {
    fail(Fix{"make the number a tensor: torch.tensor(2.0)"},
         "{}: its first argument is not a tensor", args.op().name());
  }
  return {elementwise_meta(args, operands, operands.tensors[0]->dtype)};
}

OutputMetas meta_nothing(const MetaArgs&) { return {}; }

OutputMetas meta_floats(const MetaArgs& args) {
  OutputMetas outputs = meta_tensors(args);
  require_float(args.op().name(), outputs[0].meta.dtype);
  return outputs;
}
OutputMetas meta_alike_floats(const MetaArgs& args) {
  const Operands operands = tensor_operands(args);
  const DType dtype = operands.tensors[0]->dtype;
  for (const TensorMeta* tensor : operands.tensors) {
    if (!is_floating(tensor->dtype)) {
      fail(Fix{"cast it first: x.float()"}, "{} takes floats, not {}", args.op().name(),
           to_string(tensor->dtype));
    }
    if (tensor->dtype != dtype) {
      fail(Fix{"cast one of them: y.to(x.dtype)"}, "{} takes floats of one dtype, not {} and {}",
           args.op().name(), to_string(dtype), to_string(tensor->dtype));
    }
  }
  return meta_first(args);
}

OutputMetas meta_like(const MetaArgs& args) {
  TensorMeta meta = *args.tensor(0);
  meta.stride = preserved_strides(meta);
  return {{meta}};
}

OutputMetas meta_contiguous(const MetaArgs& args) {
  return {{contiguous_meta(args.tensor(0)->shape, args.tensor(0)->dtype)}};
}

bool is_dense(const TensorMeta& meta) {
  InlineVector<std::size_t, 5> order(meta.shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return meta.stride[a] < meta.stride[b]; });
  std::int64_t expected = 1;
  for (const std::size_t dim : order) {
    if (meta.shape[dim] == 0) return true;
    if (meta.shape[dim] == 1) continue;
    if (meta.stride[dim] != expected) return false;
    expected *= meta.shape[dim];
  }
  return true;
}

Dims preserved_strides(const TensorMeta& meta) {
  if (is_dense(meta)) return meta.stride;
  const TensorMeta* const operand = &meta;
  return strides_in_order(meta.shape, memory_order(meta.shape, {&operand, 1}));
}

Dims reduced_dims(const OpDescriptor& op, const Argument& dims, std::size_t ndim) {
  Dims all(ndim);
  std::iota(all.begin(), all.end(), 0);
  Dims chosen;
  if (dims.is_scalar()) {
    chosen.push_back(dims.to_int());
  } else if (dims.is_ints()) {
    chosen = dims.ints();
  }
  if (chosen.empty() || ndim == 0) {
    for (const std::int64_t dim : chosen) wrap_dim(dim, ndim);
    return all;
  }
  for (std::int64_t& dim : chosen) dim = wrap_dim(dim, ndim);
  std::sort(chosen.begin(), chosen.end());
  if (std::adjacent_find(chosen.begin(), chosen.end()) != chosen.end()) {
    fail(Fix{"leave one of them out; dim -1 is the last"}, "{}: a dim is named twice", op.name());
  }
  return chosen;
}

Dims reduced_shape(const Dims& shape, const Dims& dims, bool keep_dims) {
  Dims result;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const bool reduced =
        std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(i)) != dims.end();
    if (!reduced) {
      result.push_back(shape[i]);
    } else if (keep_dims) {
      result.push_back(1);
    }
  }
  return result;
}

DType require_float(std::string_view op, DType dtype) {
  if (is_integral(dtype)) {
    fail(Fix{"cast it first: x.float()"}, "{} takes floats, not {}", op, to_string(dtype));
  }
  return dtype;
}

void require_order(std::string_view op, DType dtype) {
  if (!is_complex(dtype)) return;
  fail(Fix{"compare their absolute values, or their real parts"},
       "{}: complex numbers have no order", op);
}

void require_search(std::string_view op, DType dtype) {
  require_order(op, dtype);
  if (dtype != DType::kBool) return;
  fail(Fix{"cast both to integers: x.to(torch.uint8)"},
       "{} searches among numbers, not among bools", op);
}

const Argument& argument_or_none(const MetaArgs& args, std::string_view name) {
  static const Argument none;
  const std::optional<std::size_t> index = args.op().find_argument(name);
  return index ? args[*index] : none;
}

}  // namespace shardlab
