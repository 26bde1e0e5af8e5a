// Diagonals of two dims, which have to be whole: a diagonal crosses the pieces of either.
#include <algorithm>
#include <cstdlib>

#include "base/saturating.h"
#include "ops/family.h"

namespace shardlab {
namespace {

using namespace grad;

struct Diagonal {
  TensorMeta meta;
  std::int64_t offset = 0;  ///< of its first element, in elements
};

void require_two(const OpDescriptor& op, std::int64_t dim1, std::int64_t dim2) {
  if (dim1 != dim2) return;
  fail(Fix{"name two different dims"}, "{}: dim1 and dim2 are both dim {}; they must differ",
       op.name(), dim1);
}

Diagonal diagonal_of(const OpDescriptor& op, const TensorMeta& self, std::int64_t offset,
                     std::int64_t dim1, std::int64_t dim2) {
  dim1 = wrap_dim(dim1, self.shape.size());
  dim2 = wrap_dim(dim2, self.shape.size());
  require_two(op, dim1, dim2);
  const std::int64_t rows = self.shape[index_of(dim1)], columns = self.shape[index_of(dim2)];
  const std::int64_t length =
      offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns);
  Diagonal diagonal;
  diagonal.meta.dtype = self.dtype;
  for (std::size_t d = 0; d < self.shape.size(); ++d) {
    if (d == index_of(dim1) || d == index_of(dim2)) continue;
    diagonal.meta.shape.push_back(self.shape[d]);
    diagonal.meta.stride.push_back(self.stride[d]);
  }
  diagonal.meta.shape.push_back(std::max<std::int64_t>(length, 0));
  diagonal.meta.stride.push_back(self.stride[index_of(dim1)] + self.stride[index_of(dim2)]);
  if (length > 0) {
    diagonal.offset =
        offset >= 0 ? offset * self.stride[index_of(dim2)] : -offset * self.stride[index_of(dim1)];
  }
  return diagonal;
}

Diagonal diagonal_of(const MetaArgs& args) {
  return diagonal_of(args.op(), *args.tensor(0), args[1].to_int(), args[2].to_int(),
                     args[3].to_int());
}

OutputMetas meta_diagonal(const MetaArgs& args) { return {{diagonal_of(args).meta}}; }

OutputMetas meta_diagonal_copy(const MetaArgs& args) {
  return {{contiguous_meta(diagonal_of(args).meta.shape, args.tensor(0)->dtype)}};
}

ViewResults view_diagonal(const Tensor& base, const MetaArgs& args) {
  Diagonal diagonal = diagonal_of(args);
  return {{std::move(diagonal.meta), base.offset() + diagonal.offset}};
}

/// diagonal_backward(grad_output, input_sizes, offset, dim1, dim2)
OutputMetas meta_diagonal_backward(const MetaArgs& args) {
  const TensorMeta around = contiguous_meta(ints_of(args[1]), args.tensor(0)->dtype);
  const Diagonal diagonal =
      diagonal_of(args.op(), around, args[2].to_int(), args[3].to_int(), args[4].to_int());
  if (diagonal.meta.shape != args.tensor(0)->shape) {
    fail(Fix{"pass the sizes of what the diagonal was taken from"},
         "{}: the gradient does not have the shape of that diagonal", args.op().name());
  }
  return {{around}};
}

/// Zeros, of which the diagonal takes `values`.
DTensor around_diagonal(Calls& calls, const DTensor& values, const Dims& sizes,
                        const Argument& offset, const Argument& dim1, const Argument& dim2) {
  DTensor zeros = calls.one("new_zeros", {values, sizes});
  calls("copy_", {calls.one("diagonal", {zeros, offset, dim1, dim2}), values});
  return zeros;
}

Results diagonal_backward(Calls& calls, const OpRow&, const Arguments& args) {
  return {around_diagonal(calls, args[0].tensor(), ints_of(args[1]), args[2], args[3], args[4])};
}

Results diagonal_copy(Calls& calls, const OpRow&, const Arguments& args) {
  return calls("clone", {calls.one("diagonal", {args[0], args[1], args[2], args[3]})});
}

/// diag_embed(self, offset, dim1, dim2): self's last dim becomes the diagonal of two new dims.
Dims embedded_sizes(const OpDescriptor& op, const Dims& shape, const Argument& offset,
                    const Argument& first, const Argument& second) {
  if (shape.empty()) {
    fail(Fix{"x.unsqueeze(0) has a dim"}, "{}: the tensor has 0 dims; it must have at least 1",
         op.name());
  }
  const std::size_t ndim = shape.size() + 1;
  const std::int64_t dim1 = wrap_dim(first.to_int(), ndim), dim2 = wrap_dim(second.to_int(), ndim);
  require_two(op, dim1, dim2);
  const std::int64_t length = saturating_length(shape.back(), offset.to_int());
  Dims sizes;
  std::size_t next = 0;
  for (std::size_t d = 0; d < ndim; ++d) {
    const bool added = d == index_of(dim1) || d == index_of(dim2);
    sizes.push_back(added ? length : shape[next++]);
  }
  return sizes;
}

OutputMetas meta_diag_embed(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  return {{contiguous_meta(embedded_sizes(args.op(), self.shape, args[1], args[2], args[3]),
                           self.dtype)}};
}

Results diag_embed(Calls& calls, const OpRow& row, const Arguments& args) {
  const DTensor& self = args[0].tensor();
  const Dims sizes = embedded_sizes(row.op, self.shape(), args[1], args[2], args[3]);
  return {around_diagonal(calls, self, sizes, args[1], args[2], args[3])};
}

/// trace(self)
Results trace(Calls& calls, const Arguments& args) {
  const std::size_t ndim = args[0].tensor().ndim();
  if (ndim != 2) {
    fail(Fix{"x.diagonal(0, -2, -1).sum(-1) adds up those of many matrices"},
         "trace takes a matrix, not a tensor of {} dims", ndim);
  }
  return calls("sum", {calls.one("diagonal", {args[0]})});
}

/// Mask where the indices of each dim and of the next are the same, or, with `wrap`, differ by a
/// multiple of the row length and one: the diagonal continues below a matrix that is higher than
/// wide.
Expression on_diagonal(Calls& calls, const DTensor& like, const Dims& shape, bool wrap) {
  const auto ndim = static_cast<std::int64_t>(shape.size());
  const auto index = [&](std::int64_t dim) {
    Dims line(shape.size(), 1);
    line[index_of(dim)] = shape[index_of(dim)];
    const DTensor counts = counted(calls, like, shape[index_of(dim)]);
    return Expression(calls, calls.one("view", {counts, line}));
  };
  const Expression first = index(0);
  const auto meets = [&](std::int64_t dim) {
    const Expression apart = first - index(dim);
    return wrap ? apart.with("remainder.Scalar", shape[1] + 1).eq(0) : apart.eq(0);
  };
  Expression met = meets(1);
  for (std::int64_t dim = 2; dim < ndim; ++dim) met = met && meets(dim);
  return met;
}

/// trace_backward(grad, sizes)
Results trace_backward(Calls& calls, const Arguments& args) {
  const DTensor& gradient = args[0].tensor();
  const Dims sizes = ints_of(args[1]);
  if (sizes.size() != 2) {
    fail(Fix{"give the rows and columns"}, "trace_backward: the matrix has {} dims; it must have 2",
         sizes.size());
  }
  const DTensor zeros = calls.one("new_zeros", {gradient, sizes});
  const Expression met = on_diagonal(calls, gradient, sizes, false);
  const Expression kept(calls, gradient), none(calls, zeros);
  return {met.choose(kept, none)};
}

/// fill_diagonal_(self, fill_value, wrap)
Results fill_diagonal(Calls& calls, const Arguments& args) {
  const Dims& shape = args[0].tensor().shape();
  const bool cube = std::ranges::all_of(shape, [&](auto size) { return size == shape[0]; });
  if (shape.size() < 2 || (shape.size() > 2 && !cube)) {
    fail(Fix{"give a matrix, or a tensor of more dims that are of one length"},
         "fill_diagonal_: a tensor of shape [{}] has no diagonal", text_of_list(shape, ", "));
  }
  const bool wrap = args[2].to_bool() && shape.size() == 2;
  const Expression met = on_diagonal(calls, args[0].tensor(), shape, wrap);
  return calls("masked_fill_.Scalar", {args[0], met, args[1]});
}

// diag(self, diagonal): a matrix of a vector, or the diagonal of a matrix

OutputMetas meta_diag(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  if (self.shape.size() == 1) {
    const Dims sizes = embedded_sizes(args.op(), self.shape, args[1], Argument(0), Argument(1));
    return {{contiguous_meta(sizes, self.dtype)}};
  }
  if (self.shape.size() != 2) {
    fail(Fix{"use diag_embed, or diagonal, for batches"},
         "diag takes a vector or a matrix, not a tensor of {} dims", self.shape.size());
  }
  const Diagonal diagonal = diagonal_of(args.op(), self, args[1].to_int(), 0, 1);
  return {{contiguous_meta(diagonal.meta.shape, self.dtype)}};
}

Results diag(Calls& calls, const OpRow&, const Arguments& args) {
  const bool vector = args[0].tensor().ndim() == 1;
  return calls(vector ? "diag_embed" : "diagonal_copy", {args[0], args[1], 0, 1});
}

Gradients grad_diag(const GradContext& context) {
  const DTensor& self = input(context, 0);
  if (self.ndim() == 1) {
    return {context.calls.one("aten::diagonal", {context.grads[0], context.inputs[1]})};
  }
  return {context.calls.one("aten::diagonal_backward",
                            {context.grads[0], self.shape(), context.inputs[1], 0, 1})};
}

Gradients grad_diagonal(const GradContext& context) {
  return {context.calls.one("aten::diagonal_backward",
                            {context.grads[0], input(context, 0).shape(), context.inputs[1],
                             context.inputs[2], context.inputs[3]})};
}

/// No row but that of replicas.
std::vector<RuleRow> rule_whole_matrix(const RuleContext&) { return {}; }

constexpr const char* kWhy = "both dims of the diagonal stay whole";

// Sorted by name.
// clang-format off
constexpr Row kDiagonalRows[] = {
    {"diag"_op, meta_diag, rule_whole_matrix, diag, {grad_diag, ""}, kWhy, 0, {1}},
    {"diag_embed"_op, meta_diag_embed, rule_whole_matrix, diag_embed,
     {grad_by<"diagonal", 1, 2, 3>, ""}, kWhy, 0, {1}},
    {"diagonal"_op, meta_diagonal, rule_whole_matrix, view_diagonal, {grad_diagonal, ""}, kWhy, 0,
     {1}},
    {"diagonal_backward"_op, meta_diagonal_backward, rule_whole_matrix, diagonal_backward,
     {grad_by<"diagonal", 2, 3, 4>, ""}, kWhy, 0, {1}},
    {"diagonal_copy"_op, meta_diagonal_copy, rule_whole_matrix, diagonal_copy, {grad_diagonal, ""},
     kWhy, 0, {1}},
    composite("fill_diagonal_"_op, fill_diagonal, "masked_fill_ of counted positions"),
    composite("trace"_op, trace, "a sum over the diagonal"),
    composite("trace_backward"_op, trace_backward, "the gradient at counted positions"),
};
// clang-format on

}  // namespace

void register_diagonal(OpRegistry& registry) { add_rows(registry, kDiagonalRows, kExact); }

}  // namespace shardlab
