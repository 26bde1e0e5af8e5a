// Shapes, rules and steps of gradients that all of linear algebra needs.
#include "ops/linalg/matrices.h"

#include <algorithm>
#include <span>

#include "ops/family.h"

namespace shardlab::linalg {

const TensorMeta& matrices(const MetaArgs& args, std::size_t index) {
  const TensorMeta& meta = *args.tensor(index);
  require_float(args.op().name(), meta.dtype);
  if (meta.shape.size() >= 2) return meta;
  fail(Fix{"give matrices: the last two dims"}, "{}: an operand has {} dims, must have at least 2",
       args.op().name(), meta.shape.size());
}

const TensorMeta& squares(const MetaArgs& args, std::size_t index) {
  const TensorMeta& meta = matrices(args, index);
  const std::size_t ndim = meta.shape.size();
  if (meta.shape[ndim - 1] == meta.shape[ndim - 2]) return meta;
  fail(Fix{"give matrices with as many rows as columns"},
       "{}: matrices of {} rows and {} columns are not square", args.op().name(),
       meta.shape[ndim - 2], meta.shape[ndim - 1]);
}

Dims front_of(const TensorMeta& meta, std::size_t count) {
  return Dims(meta.shape.begin(), meta.shape.end() - static_cast<std::ptrdiff_t>(count));
}

Dims with(Dims front, std::initializer_list<std::int64_t> sizes) {
  for (const std::int64_t size : sizes) front.push_back(size);
  return front;
}

OutputMeta fresh(Dims shape, DType dtype) { return {contiguous_meta(std::move(shape), dtype)}; }

OutputMeta by_columns(Dims front, std::int64_t rows, std::int64_t columns, DType dtype) {
  OutputMeta output = fresh(with(std::move(front), {rows, columns}), dtype);
  const std::size_t ndim = output.meta.shape.size();
  output.meta.stride[ndim - 2] = 1;
  output.meta.stride[ndim - 1] = std::max<std::int64_t>(rows, 1);
  return output;
}

OutputMeta square_by_columns(const TensorMeta& a) {
  return by_columns(front_of(a), rows_of(a), columns_of(a), a.dtype);
}

Dims common_front(const MetaArgs& args, const TensorMeta& a, const TensorMeta& b,
                  std::size_t dims_of_b) {
  const TensorMeta fronts[] = {contiguous_meta(front_of(a), a.dtype),
                               contiguous_meta(front_of(b, dims_of_b), b.dtype)};
  const TensorMeta* const both[] = {&fronts[0], &fronts[1]};
  return broadcast_shapes(args.op(), both);
}

namespace {

/// All operands and results cut alike along one of so many dims in front.
std::vector<RuleRow> front_rows(const RuleContext& context, std::int64_t dims) {
  std::vector<RuleRow> rows;
  for (std::int64_t dim = 0; dim < dims; ++dim) {
    rows.push_back(
        uniform_row(any(dim), context.schema.row->op.returns.size(), context.tensors.size()));
  }
  return rows;
}

}  // namespace

std::vector<RuleRow> batch_rule(const RuleContext& context) {
  return front_rows(context, ndim_of(context) - 2);
}

std::vector<RuleRow> common_batch_rows(const RuleContext& context,
                                       std::initializer_list<std::size_t> behind) {
  const std::vector<std::size_t> others(behind);
  const auto front = [&](std::size_t i) {
    const Dims& shape = context.tensors[i]->shape();
    return std::span(shape).first(shape.size() - others[i]);
  };
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (context.tensors[i]->shape().size() < others[i]) return {};  // shape inference refuses it
    if (!std::ranges::equal(front(i), front(0))) return {};
  }
  return front_rows(context, static_cast<std::int64_t>(front(0).size()));
}

void add_linear_row(std::vector<RuleRow>& rows, const RuleContext& context, std::size_t linear) {
  RuleRow row = uniform_row(whole(), context.schema.row->op.returns.size(), context.tensors.size());
  row.outputs[0] = row.inputs[linear] = sum();
  rows.push_back(std::move(row));
}

std::vector<RuleRow> packed_rule(const RuleContext& context) {
  std::vector<RuleRow> rows = common_batch_rows(context, {2, 1, 2});
  add_linear_row(rows, context, 2);
  return rows;
}

DTensor adjoint(Calls& calls, const DTensor& x) {
  return conjugated(calls, calls.one("aten::transpose.int", {x, -2, -1}));
}

DTensor product(Calls& calls, const DTensor& a, const DTensor& b) {
  return calls.one("aten::matmul", {a, b});
}

DTensor diagonal(Calls& calls, const DTensor& x) {
  return calls.one("aten::diagonal", {x, 0, -2, -1});
}

DTensor on_diagonal(Calls& calls, const DTensor& x) { return calls.one("aten::diag_embed", {x}); }

DTensor lower(Calls& calls, const DTensor& x, std::int64_t offset) {
  return calls.one("aten::tril", {x, offset});
}
DTensor upper(Calls& calls, const DTensor& x, std::int64_t offset) {
  return calls.one("aten::triu", {x, offset});
}

}  // namespace shardlab::linalg
