// Tensors put side by side, taken apart and walked along, by the names that numpy gave them:
// hstack, vsplit, tile, diff, take_along_dim. Each is the reference's steps over views and joins.
#include <algorithm>
#include <cmath>

#include "ops/family.h"

namespace shardlab {
namespace {

/// With at least `ndim` dims, as numpy adds them: one in front of a line, then one behind.
DTensor with_dims(Calls& calls, const DTensor& x, std::size_t ndim) {
  if (x.ndim() >= ndim) return x;
  if (x.ndim() == 0) return reshape(calls, x, Dims(ndim, 1));
  const DTensor row = x.ndim() == 1 ? calls.one("unsqueeze", {x, 0}) : x;
  return row.ndim() < ndim ? calls.one("unsqueeze", {row, -1}) : row;
}

/// atleast_1d, atleast_2d, atleast_3d(self)
template <std::size_t ndim>
Results at_least(Calls& calls, const Arguments& args) {
  return {with_dims(calls, args[0].tensor(), ndim)};
}

ArgumentList all_with_dims(Calls& calls, const Argument& tensors, std::size_t ndim) {
  ArgumentList list;
  for (const Argument& x : tensors.list()) list.emplace_back(with_dims(calls, x.tensor(), ndim));
  return list;
}

/// atleast_1d.Sequence and its kin (tensors)
template <std::size_t ndim>
Results all_at_least(Calls& calls, const Arguments& args) {
  return {Argument(all_with_dims(calls, args[0], ndim))};
}

DTensor side_by_side(Calls& calls, const ArgumentList& tensors) {
  const bool lines = !tensors.empty() && tensors[0].tensor().ndim() == 1;
  return calls.one("cat", {tensors, lines ? 0 : 1});
}

/// hstack(tensors)
Results hstack(Calls& calls, const Arguments& args) {
  return {side_by_side(calls, all_with_dims(calls, args[0], 1))};
}
/// vstack, row_stack(tensors)
Results vstack(Calls& calls, const Arguments& args) {
  return {calls.one("cat", {all_with_dims(calls, args[0], 2), 0})};
}
/// dstack(tensors)
Results dstack(Calls& calls, const Arguments& args) {
  return {calls.one("cat", {all_with_dims(calls, args[0], 3), 2})};
}
/// column_stack(tensors): a line is a column.
Results column_stack(Calls& calls, const Arguments& args) {
  ArgumentList columns;
  for (const Argument& argument : args[0].list()) {
    const DTensor& x = argument.tensor();
    columns.emplace_back(x.ndim() < 2 ? reshape(calls, x, Dims{x.numel(), 1}) : x);
  }
  return {side_by_side(calls, columns)};
}

/// hsplit, vsplit, dsplit(self, sections or indices): along `dim`; a line only has dim 0.
template <std::int64_t dim, std::size_t fewest_dims>
Results split_along(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  if (x.ndim() < fewest_dims) {
    fail(Fix{"use tensor_split(x, n, dim=0)"}, "a tensor of {} dims cannot be split along dim {}",
         x.ndim(), dim);
  }
  const std::int64_t along = x.ndim() == 1 ? 0 : dim;
  if (args[1].is_ints()) return calls("tensor_split.indices", {x, args[1], along});
  const std::int64_t sections = args[1].to_int(), size = x.shape()[index_of(along)];
  if (sections < 1 || size % sections != 0) {
    fail(Fix{"use tensor_split, whose pieces may differ"},
         "{} elements of dim {} cannot be split into {} equal pieces", size, along, sections);
  }
  return calls("tensor_split.sections", {x, sections, along});
}

/// tile(self, dims): counts for the last dims, where there are fewer than dims
Results tile(Calls& calls, const Arguments& args) {
  Dims counts = ints_of(args[1]);
  while (counts.size() < args[0].tensor().ndim()) counts.insert(0, 1);
  return {calls.one("repeat", {args[0], counts})};
}

/// cartesian_prod(tensors): a row for each choice of one element of each line
Results cartesian_product(Calls& calls, const Arguments& args) {
  for (const Argument& x : args[0].list()) {
    if (x.tensor().ndim() == 1) continue;
    fail(Fix{"flatten it: x.flatten()"}, "cartesian_prod takes tensors of one dim, not {}",
         x.tensor().ndim());
  }
  if (args[0].list().size() == 1) return {args[0].list()[0]};
  const Results grids = calls("meshgrid", {args[0]});
  ArgumentList columns;
  for (const Argument& grid : grids[0].list()) {
    columns.emplace_back(reshape(calls, grid.tensor(), Dims{grid.tensor().numel()}));
  }
  return {calls.one("stack", {columns, 1})};
}

/// combinations(self, r, with_replacement): a row for each choice of r elements, in their order
Results combinations(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const std::int64_t r = args[1].to_int();
  const bool again = args[2].to_bool();
  if (x.ndim() != 1 || r < 0) {
    fail(Fix{"flatten it: x.flatten(), and choose at least 0"},
         "combinations: r is {}, the tensor has {} dims; they must be at least 0, and 1", r,
         x.ndim());
  }
  if (r == 0) return {calls.one("new_empty", {x, Dims{0}})};
  const std::int64_t count = x.numel();
  const Argument places = counted(calls, x, count);
  const Results all = calls("meshgrid", {ArgumentList(index_of(r), places)});
  const ArgumentList& grids = all[0].list();
  DTensor chosen = calls.one("new_ones", {x, Dims(index_of(r), count), DType::kBool});
  double rows = 1;
  for (std::int64_t i = 0; i < r; ++i) {
    rows = rows * static_cast<double>(again ? count + i : count - i) / static_cast<double>(i + 1);
    if (i + 1 == r) break;
    const char* order = again ? "le.Tensor" : "lt.Tensor";
    const DTensor ordered = calls.one(order, {grids[index_of(i)], grids[index_of(i + 1)]});
    chosen = calls.one("mul.Tensor", {chosen, ordered});
  }
  const auto size = static_cast<std::int64_t>(std::max(std::round(rows), 0.0));
  const DTensor index = calls.one("nonzero_static", {chosen, size});
  return {calls.one("index.Tensor", {x, ArgumentList{index}})};
}

// Powers of each element: vander(x, N, increasing), linalg_vander(x, *, N).

/// With a last dim of the powers from 0 to count - 1.
DTensor powers_of(Calls& calls, const DTensor& x, std::int64_t count) {
  Dims shape = x.shape();
  shape.push_back(std::max<std::int64_t>(count - 1, 0));
  const DTensor factors = calls.one("expand", {calls.one("unsqueeze", {x, -1}), shape});
  const DTensor products = calls.one("cumprod", {factors, -1});
  shape.back() = std::min<std::int64_t>(count, 1);
  const DTensor ones = calls.one("new_ones", {products, shape});
  return calls.one("cat", {ArgumentList{ones, products}, -1});
}

Results vander(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const std::int64_t count = int_or(args[1], x.numel());
  if (x.ndim() != 1 || count < 0) {
    fail(Fix{"give a tensor of one dim, and N of at least 0"},
         "vander: the tensor has {} dims, N is {}; they must be 1, and at least 0", x.ndim(),
         count);
  }
  const DTensor powers = powers_of(calls, x, count);
  return {args[2].to_bool() ? powers : calls.one("flip", {powers, Dims{1}})};
}

Results vander_of_rows(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const std::int64_t count = int_or(args[1], x.ndim() == 0 ? 1 : x.shape().back());
  if (x.dtype() == DType::kBool || (!args[1].is_none() && count < 2)) {
    fail(Fix{"give numbers, and N of at least 2"},
         "linalg_vander: the tensor is {}, N is {}; they must be numbers, and at least 2",
         to_string(x.dtype()), count);
  }
  return {powers_of(calls, x.ndim() == 0 ? calls.one("unsqueeze", {x, 0}) : x, count)};
}

/// diff(self, n, dim, prepend, append)
Results diff(Calls& calls, const Arguments& args) {
  DTensor x = args[0].tensor();
  const std::int64_t n = args[1].to_int();
  if (x.ndim() == 0 || n < 0) {
    fail(Fix{"give a tensor of at least one dim, and n of at least 0"},
         "diff: the tensor has {} dims, n is {}; they must be at least 1, and at least 0", x.ndim(),
         n);
  }
  const std::int64_t dim = wrap_dim(args[2].to_int(), x.ndim());
  if (n == 0) return {calls.one("clone", {x})};
  ArgumentList parts;
  if (args[3].is_tensor()) parts.push_back(args[3]);
  parts.emplace_back(x);
  if (args[4].is_tensor()) parts.push_back(args[4]);
  if (parts.size() > 1) x = calls.one("cat", {parts, dim});
  const std::int64_t steps = std::min(n, x.shape()[index_of(dim)]);
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t length = x.shape()[index_of(dim)];
    const DTensor before = calls.one("slice.Tensor", {x, dim, 0, length - 1});
    const DTensor after = calls.one("slice.Tensor", {x, dim, 1, length});
    const bool truth = x.dtype() == DType::kBool;
    x = calls.one(truth ? "logical_xor" : "sub.Tensor", {after, before});
  }
  return {x};
}

/// take_along_dim(self, indices, dim): without a dim, of all elements in their order
Results take_along_dim(Calls& calls, const Arguments& args) {
  const DTensor &x = args[0].tensor(), &index = args[1].tensor();
  if (args[2].is_none()) {
    const DTensor line = reshape(calls, x, Dims{-1});
    return {calls.one("gather", {line, 0, reshape(calls, index, Dims{-1})})};
  }
  if (x.ndim() != index.ndim() || index.dtype() != DType::kI64) {
    fail(Fix{"give indices of i64 with as many dims as the tensor"},
         "take_along_dim: the indices have {} dims and dtype {}; they must have {} dims, as the "
         "tensor, and i64",
         index.ndim(), to_string(index.dtype()), x.ndim());
  }
  const std::int64_t dim = wrap_dim(args[2].to_int(), x.ndim());
  const std::int64_t length = x.shape()[index_of(dim)];
  const OpDescriptor& op = calls.find("take_along_dim").op;
  const auto stretched = [&](const DTensor& value, const DTensor& other) {
    TensorMeta like = other.meta();
    like.shape[index_of(dim)] = value.shape()[index_of(dim)];
    const TensorMeta* both[] = {&value.meta(), &like};
    return calls.one("expand", {value, broadcast_shapes(op, both)});
  };
  const DTensor places = calls.one("remainder.Scalar", {stretched(index, x), length});
  return {calls.one("gather", {stretched(x, index), dim, places})};
}

/// fliplr, flipud(self)
template <std::int64_t dim>
Results flip_dim(Calls& calls, const Arguments& args) {
  if (static_cast<std::int64_t>(args[0].tensor().ndim()) <= dim) {
    fail(Fix{"use flip(x, [dim])"}, "there is no dim {} to flip", dim);
  }
  return {calls.one("flip", {args[0], Dims{dim}})};
}

/// diagflat(self, offset)
Results diagflat(Calls& calls, const Arguments& args) {
  const DTensor line = reshape(calls, args[0].tensor(), Dims{-1});
  return {calls.one("diag_embed", {line, args[1]})};
}

Results msort(Calls& calls, const Arguments& args) { return {calls("sort", {args[0], 0})[0]}; }

/// adjoint(self)
Results adjoint_view(Calls& calls, const Arguments& args) {
  return {conjugated(calls, calls.one("transpose.int", {args[0], -2, -1}))};
}

/// matrix_H(self)
Results matrix_adjoint(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  if (x.ndim() != 2) {
    fail(Fix{"use mH for the last two dims"}, "matrix_H: the tensor has {} dims, a matrix has 2",
         x.ndim());
  }
  return adjoint_view(calls, args);
}

/// nanmean(self, dim, keepdim, *, dtype)
Results nanmean(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const DTensor counted_ones = calls.one("logical_not", {calls.one("isnan", {x})});
  const DTensor count = calls.one("sum.dim_IntList", {counted_ones, args[1], args[2]});
  return {calls.one("div.Tensor", {calls.one("nansum", args), count})};
}

// The area below a line, by trapezoids: (y, *, dx, dim) and (y, x, *, dim).

/// Along `dim`, all but the last element and all but the first.
std::pair<DTensor, DTensor> neighbours(Calls& calls, const DTensor& x, std::int64_t dim) {
  return {calls.one("slice.Tensor", {x, dim, 0, -1}), calls.one("slice.Tensor", {x, dim, 1})};
}

DTensor sums_of_neighbours(Calls& calls, const DTensor& y, std::int64_t dim) {
  const auto [before, after] = neighbours(calls, y, dim);
  return calls.one("add.Tensor", {before, after});
}

/// Twice the areas between neighbours.
DTensor areas(Calls& calls, const DTensor& y, const DTensor& x, std::int64_t dim) {
  DTensor places = x;
  if (x.ndim() == 1) {
    Dims shape(y.ndim(), 1);
    shape[index_of(dim)] = x.numel();
    places = reshape(calls, x, shape);
  }
  const std::int64_t place =
      dim + static_cast<std::int64_t>(places.ndim()) - static_cast<std::int64_t>(y.ndim());
  const auto [before, after] = neighbours(calls, places, place);
  const DTensor widths = calls.one("sub.Tensor", {after, before});
  return calls.one("mul.Tensor", {sums_of_neighbours(calls, y, dim), widths});
}

void require_line(const DTensor& y, const char* op) {
  if (y.ndim() > 0) return;
  fail(Fix{"give a tensor of at least one dim"}, "{}: y has no dims; the areas need one", op);
}

Results trapezoid(Calls& calls, const Arguments& args) {
  const DTensor& y = args[0].tensor();
  require_line(y, "trapezoid");
  const bool placed = args[1].is_tensor();
  const std::int64_t dim = wrap_dim(args[2].to_int(), y.ndim());
  if (y.shape()[index_of(dim)] == 0) {
    return {calls.one("sum.dim_IntList", {y, Dims{dim}})};
  }
  if (placed) {
    const DTensor twice = areas(calls, y, args[1].tensor(), dim);
    return {calls.one("div.Scalar", {calls.one("sum.dim_IntList", {twice, Dims{dim}}), 2.0})};
  }
  const DTensor ends = calls.one(
      "add.Tensor", {calls.one("select.int", {y, dim, -1}), calls.one("select.int", {y, dim, 0})});
  const DTensor sum = calls.one("sum.dim_IntList", {y, Dims{dim}});
  const DTensor inner_sum = calls.one("sub.Tensor", {sum, calls.one("mul.Scalar", {ends, 0.5})});
  return {calls.one("mul.Scalar", {inner_sum, args[1].to_double()})};
}

Results cumulative_trapezoid(Calls& calls, const Arguments& args) {
  const DTensor& y = args[0].tensor();
  require_line(y, "cumulative_trapezoid");
  const std::int64_t dim = wrap_dim(args[2].to_int(), y.ndim());
  if (args[1].is_tensor()) {
    const DTensor twice = areas(calls, y, args[1].tensor(), dim);
    return {calls.one("div.Scalar", {calls.one("cumsum", {twice, dim}), 2.0})};
  }
  const DTensor halves =
      calls.one("mul.Scalar", {sums_of_neighbours(calls, y, dim), args[1].to_double() / 2});
  return {calls.one("cumsum", {halves, dim})};
}

constexpr const char* kJoins = "cat";
constexpr const char* kPieces = "tensor_split";
constexpr const char* kDimsAdded = "unsqueeze";
constexpr const char* kPowers = "cumprod";
constexpr const char* kAreas = "sums of neighbours";

// Sorted by name.
// clang-format off
constexpr Row kStackingRows[] = {
    composite("adjoint"_op, adjoint_view, "transpose"),
    composite("mH"_op, adjoint_view, "transpose"),
    composite("matrix_H"_op, matrix_adjoint, "transpose"),
    composite("atleast_1d"_op, at_least<1>, kDimsAdded),
    composite("atleast_1d.Sequence"_op, all_at_least<1>, kDimsAdded),
    composite("atleast_2d"_op, at_least<2>, kDimsAdded),
    composite("atleast_2d.Sequence"_op, all_at_least<2>, kDimsAdded),
    composite("atleast_3d"_op, at_least<3>, kDimsAdded),
    composite("atleast_3d.Sequence"_op, all_at_least<3>, kDimsAdded),
    composite("cartesian_prod"_op, cartesian_product, "meshgrid"),
    composite("column_stack"_op, column_stack, kJoins),
    composite("combinations"_op, combinations, "meshgrid and index"),
    composite("cumulative_trapezoid.dx"_op, cumulative_trapezoid, kAreas),
    composite("cumulative_trapezoid.x"_op, cumulative_trapezoid, kAreas),
    composite("diagflat"_op, diagflat, "diag_embed"),
    composite("diff"_op, diff, "differences of slices"),
    composite("dsplit.array"_op, split_along<2, 3>, kPieces),
    composite("dsplit.int"_op, split_along<2, 3>, kPieces),
    composite("dstack"_op, dstack, kJoins),
    composite("fliplr"_op, flip_dim<1>, "flip"),
    composite("flipud"_op, flip_dim<0>, "flip"),
    composite("hsplit.array"_op, split_along<1, 1>, kPieces),
    composite("hsplit.int"_op, split_along<1, 1>, kPieces),
    composite("hstack"_op, hstack, kJoins),
    composite("linalg_vander"_op, vander_of_rows, kPowers),
    composite("msort"_op, msort, "sort"),
    composite("nanmean"_op, nanmean, "nansum and a count"),
    composite("row_stack"_op, vstack, kJoins),
    composite("take_along_dim"_op, take_along_dim, "gather"),
    composite("tile"_op, tile, "repeat"),
    composite("trapezoid.dx"_op, trapezoid, kAreas),
    composite("trapezoid.x"_op, trapezoid, kAreas),
    composite("trapz.dx"_op, trapezoid, kAreas),
    composite("trapz.x"_op, trapezoid, kAreas),
    composite("vander"_op, vander, kPowers),
    composite("vsplit.array"_op, split_along<0, 2>, kPieces),
    composite("vsplit.int"_op, split_along<0, 2>, kPieces),
    composite("vstack"_op, vstack, kJoins),
};
// clang-format on

}  // namespace

void register_stacking(OpRegistry& registry) { add_rows(registry, kStackingRows); }

}  // namespace shardlab
