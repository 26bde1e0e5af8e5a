// meta.h - the parts of the families' shape functions: broadcasting, dtypes, output strides as the
// reference computes them, dims of reductions. Pure; failures are Value and name the op.
#pragma once

#include <span>
#include <string_view>

#include "base/text.h"
#include "schema/meta_args.h"

namespace shardlab {

struct OpRow;

/// Metadata of a call's results, for base rows and derived ones: an in-place op gives its target's
/// (and refuses another shape or a higher category of dtype), out= gives the out tensors' dtype,
/// and their strides where the shape is right already.
OutputMetas infer_metas(const OpRow& row, const Arguments& args, MetaList metas);
/// Refuses a call whose metadata or parts have looked for a dim or a number that does not exist,
/// which no check of their own has caught.
///   fails  Value
[[noreturn]] void refuse_short_operands(const OpRow& row, const OutOfRange& error);
/// The results that an in-place or out= row computes, before they are written to its targets.
OutputMetas unwritten_metas(const OpRow& row, const Arguments& args, const MetaList& metas);

/// A result that is written in place has the target's shape.
///   fails  Value
void check_written_shape(const OpRow& row, const Dims& result, const Dims& target);
/// An argument, where it is given, has this shape.
///   fails  Value
void check_argument_shape(const MetaArgs& args, std::size_t index, const Dims& shape);
/// An argument, where it is given, has the dtype of the one at `like`.
///   fails  Value
void check_argument_dtype(const MetaArgs& args, std::size_t index, std::size_t like);
/// A result that is written in place or to an out= tensor is of no higher category than its target,
/// and largest and smallest elements of all are of its dtype.
///   fails  Value
void check_category(const OpRow& row, DType result, DType target);

/// Common shape; sizes of 1 stretch.
Dims broadcast_shapes(const OpDescriptor& op, std::span<const TensorMeta* const> operands);
/// Strides of a fresh elementwise result: dims are in memory in the order of the operands' strides;
/// the first operand with different strides for two dims decides.
Dims elementwise_strides(const Dims& shape, std::span<const TensorMeta* const> operands);

/// Operands of an elementwise op: tensors, and numbers in place of one.
struct Operands {
  MetaList tensors;
  InlineVector<Scalar, 2> numbers;
};
/// All positional arguments but alpha, a mere factor.
Operands positional_operands(const MetaArgs& args);
/// Positional tensors only: the op's numbers are parameters (threshold, value, ..).
Operands tensor_operands(const MetaArgs& args);
/// Tensors with dims rule; 0-dim tensors and then numbers count only when their category is higher.
DType result_dtype(const Operands& operands);
OutputMeta elementwise_meta(const MetaArgs& args, const Operands& operands, DType dtype);

// Shape functions of pointwise ops, each named for the source of the dtype.
OutputMetas meta_promoted(const MetaArgs& args);        ///< tensors and numbers
OutputMetas meta_promoted_float(const MetaArgs& args);  ///< the same; integers give f32
OutputMetas meta_tensors(const MetaArgs& args);         ///< tensors only
OutputMetas meta_floats(const MetaArgs& args);          ///< the same; fails for integers
OutputMetas meta_bool(const MetaArgs& args);            ///< always bool
OutputMetas meta_first(const MetaArgs& args);           ///< dtype of the first tensor
/// Broadcast; all tensors are floats of one dtype, which the result has. Fails with Value.
OutputMetas meta_alike_floats(const MetaArgs& args);
OutputMetas meta_nothing(const MetaArgs& args);  ///< no results: it only writes in place
/// Shape, dtype and (where dense) strides of the first tensor.
OutputMetas meta_like(const MetaArgs& args);
/// Shape and dtype of the first tensor, with elements in row-major order.
OutputMetas meta_contiguous(const MetaArgs& args);

/// Strides kept where they cover memory without gaps or overlap, else computed from their order.
Dims preserved_strides(const TensorMeta& meta);
bool is_dense(const TensorMeta& meta);

/// The dims argument of a reduction: None, and an empty list, mean all; sorted, without doubles.
Dims reduced_dims(const OpDescriptor& op, const Argument& dims, std::size_t ndim);
Dims reduced_shape(const Dims& shape, const Dims& dims, bool keep_dims);

/// `dtype`, of floats or complex numbers. Fails with Value, naming `op`.
DType require_float(std::string_view op, DType dtype);
/// Fails with Value for complex numbers, naming `op`.
void require_order(std::string_view op, DType dtype);
/// Values and the boundaries that they are searched among, in their common dtype: numbers that have
/// an order. Fails with Value, naming `op`.
void require_search(std::string_view op, DType dtype);

/// The value of an argument by name; None when the op has no such argument.
const Argument& argument_or_none(const MetaArgs& args, std::string_view name);

// An incoming gradient has the shape of its tensor.

/// `of` names the tensor with `wanted` as its shape: "the output".
///   fails  Value: another shape
inline void check_gradient_shape(const MetaArgs& args, const Dims& gradient, const Dims& wanted,
                                 std::string_view of) {
  if (gradient == wanted) return;
  fail(Fix{fmt::format("pass a gradient of shape [{}]", text_of_list(wanted, ", "))},
       "{}: the gradient has shape [{}]; it must have the shape of {}", args.op().base,
       text_of_list(gradient, ", "), of);
}

}  // namespace shardlab
