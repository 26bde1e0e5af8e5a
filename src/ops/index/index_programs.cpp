// Composite ops over look-ups and comparisons: elements by number, members of a set, classes as
// columns, conditions with numbers next to tensors, copies to places.
#include <algorithm>

#include "ops/family.h"

namespace shardlab {
namespace {

using namespace grad;

void require_long(std::string_view op, const DTensor& index) {
  if (index.dtype() == DType::kI64) return;
  fail(Fix{"cast it: index.to(torch.int64)"}, "{}: the dtype of an index must be i64, not {}", op,
       to_string(index.dtype()));
}

DTensor flat(Calls& calls, const DTensor& x) { return regrouped(calls, x, Dims{x.numel()}); }

/// take(self, index): elements by their number in row-major order
Results take(Calls& calls, const Arguments& args) {
  require_long("take", args[1].tensor());
  const ArgumentList index{args[1]};
  return calls("index.Tensor", {flat(calls, args[0].tensor()), index});
}

/// put(self, index, source, accumulate): to places by their number in row-major order
Results put(Calls& calls, const Arguments& args) {
  const DTensor &self = args[0].tensor(), &index = args[1].tensor();
  require_long("put", index);
  if (args[2].tensor().numel() != index.numel()) {
    fail(Fix{"give one element for each index"},
         "put: there are {} indices and {} elements; there must be as many", index.numel(),
         args[2].tensor().numel());
  }
  const ArgumentList places{flat(calls, index)};
  const DTensor result =
      calls.one("index_put", {flat(calls, self), places, flat(calls, args[2].tensor()), args[3]});
  return {regrouped(calls, result, self.shape())};
}

Gradients grad_take(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& self = input(context, 0);
  const ArgumentList index{context.inputs[1]};
  const DTensor zeros = calls.one("aten::new_zeros", {context.grads[0], Dims{self.numel()}});
  const DTensor sums = calls.one("aten::index_put", {zeros, index, context.grads[0], true});
  return {regrouped(calls, sums, self.shape())};
}

/// index_copy(self, dim, index, source)
Results index_copy(Calls& calls, const Arguments& args) {
  DTensor self = args[0].tensor(), source = args[3].tensor();
  const DTensor& index = args[2].tensor();
  require_long("index_copy", index);
  const std::int64_t dim = wrap_dim(args[1].to_int(), self.ndim());
  Dims shape = self.shape();
  if (!shape.empty()) shape[index_of(dim)] = index.numel();
  const bool one = index.numel() == 1 && source.numel() == 1 && self.ndim() <= 1;
  if (index.ndim() > 1 || (source.shape() != shape && !one)) {
    fail(Fix{fmt::format("give a source of shape [{}]", text_of_list(shape, ", "))},
         "index_copy: the source has shape [{}], there are {} indices for dim {} of [{}]",
         text_of_list(source.shape(), ", "), index.numel(), dim, text_of_list(self.shape(), ", "));
  }
  const bool without_dims = self.ndim() == 0;
  if (without_dims) self = calls.one("unsqueeze", {self, 0});
  if (source.ndim() == 0) source = calls.one("unsqueeze", {source, 0});
  ArgumentList indices(index_of(dim));
  indices.emplace_back(flat(calls, index));
  const DTensor result = calls.one("index_put", {self, indices, source});
  return {without_dims ? calls.one("squeeze.dim", {result, 0}) : result};
}

Gradients grad_index_copy(const GradContext& context) {
  Calls& calls = context.calls;
  const Argument &dim = context.inputs[1], &index = context.inputs[2];
  return each_of(context, 3, [&](std::size_t i) {
    if (i == 0) return calls.one("aten::index_fill.int_Scalar", {context.grads[0], dim, index, 0});
    const DTensor chosen = calls.one("aten::index_select", {context.grads[0], dim, index});
    return regrouped(calls, chosen, input(context, 3).shape());
  });
}

/// one_hot(self, num_classes); -1: as many as the largest class needs
Results one_hot(Calls& calls, const Arguments& args) {
  const DTensor& classes = args[0].tensor();
  require_long("one_hot", classes);
  std::int64_t count = args[1].to_int();
  if (count == -1 && classes.numel() > 0) {
    count = integer_in(calls, calls.one("max", {classes})) + 1;
  }
  if (count < 1) {
    fail(Fix{"give the number of classes"},
         "one_hot: the number of classes is {}; it must be at least 1", count);
  }
  Dims shape = classes.shape();
  shape.push_back(count);
  const DTensor zeros = calls.one("new_zeros", {classes, shape});
  return calls("scatter.value", {zeros, -1, calls.one("unsqueeze", {classes, -1}), 1});
}

// isin(elements, test_elements, *, assume_unique, invert)

DTensor inverted(Calls& calls, const DTensor& found, const Argument& invert) {
  return invert.to_bool() ? calls.one("logical_not", {found}) : found;
}

Results isin(Calls& calls, const Arguments& args) {
  const DTensor each = calls.one("unsqueeze", {args[0], -1});
  const DTensor same = calls.one("eq.Tensor", {each, flat(calls, args[1].tensor())});
  return {inverted(calls, calls.one("any.dim", {same, -1}), args[3])};
}

Results isin_number(Calls& calls, const Arguments& args) {
  return {inverted(calls, calls.one("eq.Scalar", {args[0], args[1]}), args[3])};
}

Results number_isin(Calls& calls, const Arguments& args) {
  const DTensor same = calls.one("eq.Scalar", {args[1], args[0]});
  return {inverted(calls, calls.one("any", {same}), args[3])};
}

// where(condition, self, other) with numbers, which count for the dtype only where they are of a
// higher category.

DTensor number_like(Calls& calls, const Arguments& args, const Argument& number,
                    const Argument& other) {
  const Category category = number.scalar().category();
  DType dtype = default_dtype(category);
  if (other.is_tensor()) {
    const DType given = other.tensor().dtype();
    if (category <= category_of(given)) dtype = given;
  } else {
    dtype = promote(dtype, default_dtype(other.scalar().category()));
  }
  return calls.one("new_full", {args[0], Dims{}, number, dtype});
}

Results where_numbers(Calls& calls, const Arguments& args) {
  const auto operand = [&](std::size_t mine, std::size_t other) {
    return args[mine].is_tensor() ? args[mine]
                                  : Argument(number_like(calls, args, args[mine], args[other]));
  };
  return calls("where.self", {args[0], operand(1, 2), operand(2, 1)});
}

/// nonzero_numpy(self), where(condition): for each dim the places of non-zeros. The n-th of them is
/// scattered to place n, all else behind the last.
Results places_of(Calls& calls, const Arguments& args) {
  DTensor x = args[0].tensor();
  if (x.ndim() == 0) x = calls.one("unsqueeze", {x, 0});
  const DTensor found = calls.one("ne.Scalar", {flat(calls, x), 0});
  const DTensor numbers = calls.one("cumsum", {found, 0, DType::kI64});
  const std::int64_t count =
      x.numel() == 0 ? 0 : integer_in(calls, calls.one("select.int", {numbers, 0, -1}));
  const DTensor missing = calls.one("logical_not", {found});
  const DTensor ranks =
      calls.one("masked_fill.Scalar", {calls.one("sub.Scalar", {numbers, 1}), missing, count});
  const DTensor positions = counted(calls, numbers, x.numel());
  const DTensor room = calls.one("new_zeros", {numbers, Dims{count + 1}});
  const DTensor all = calls.one("scatter.src", {room, 0, ranks, positions});
  Expression rest(calls, calls.one("slice.Tensor", {all, 0, 0, count}));
  ArgumentList places(x.ndim());
  for (std::size_t d = x.ndim(); d-- > 0;) {
    const std::int64_t size = std::max<std::int64_t>(x.shape()[d], 1);
    places[d] = calls.one("remainder.Scalar", {rest, size});
    rest = {calls, calls.one("floor_divide.Scalar", {rest, size})};
  }
  return {Argument(std::move(places))};
}

// The same without a look at the bounds, which programs here do not leave out.

/// Places beyond the tensor, which the mask leaves out, moved to its end.
ArgumentList within(Calls& calls, const DTensor& self, const Argument& indices) {
  ArgumentList inside = indices.list();
  if (inside.size() > self.ndim()) {
    fail(Fix{"give one index per dim"}, "there are {} indices for a tensor of {} dims",
         inside.size(), self.ndim());
  }
  for (std::size_t d = 0; d < inside.size(); ++d) {
    if (!inside[d].is_tensor()) continue;
    const std::int64_t size = self.shape()[d];  // negative ones count from the end
    inside[d] = calls.one("clamp", {inside[d], -size, std::max<std::int64_t>(size - 1, 0)});
  }
  return inside;
}

/// _unsafe_masked_index(self, mask, indices, fill)
Results masked_index(Calls& calls, const Arguments& args) {
  const DTensor& self = args[0].tensor();
  const DTensor outside = calls.one("logical_not", {args[1]});
  if (self.numel() == 0) return calls("new_full", {self, args[1].tensor().shape(), args[3]});
  const DTensor found = calls.one("index.Tensor", {self, within(calls, self, args[2])});
  return calls("masked_fill.Scalar", {found, outside, args[3]});
}

/// _unsafe_masked_index_put_accumulate(self, mask, indices, values)
Results masked_index_put(Calls& calls, const Arguments& args) {
  const DTensor& self = args[0].tensor();
  if (self.numel() == 0) return calls("clone", {self});
  const DTensor outside = calls.one("logical_not", {args[1]});
  const DTensor values = calls.one("masked_fill.Scalar", {args[3], outside, 0});
  return calls("index_put", {self, within(calls, self, args[2]), values, true});
}

// scatter with a reduction by its older names

constexpr std::pair<std::string_view, const char*> kReductions[] = {{"add", "sum"},
                                                                    {"multiply", "prod"}};

const char* reduction_of(const Argument& argument) {
  for (const auto& [older, name] : kReductions) {
    if (argument.string() == older) return name;
  }
  fail(Fix{"write \"add\" or \"multiply\", or use scatter_reduce"},
       "scatter: there is no reduction \"{}\"", argument.string());
}

/// scatter.reduce(self, dim, index, src, *, reduce)
Results scatter_reduced(Calls& calls, const Arguments& args) {
  return calls("scatter_reduce.two", {args[0], args[1], args[2], args[3], reduction_of(args[4])});
}

/// scatter.value_reduce(self, dim, index, value, *, reduce)
Results scatter_number(Calls& calls, const Arguments& args) {
  const DTensor values =
      calls.one("new_full", {args[0], args[2].tensor().shape(), args[3], args[0].tensor().dtype()});
  return calls("scatter_reduce.two", {args[0], args[1], args[2], values, reduction_of(args[4])});
}

constexpr const char* kConditions = "where";

// Sorted by name.
// clang-format off
constexpr Row kIndexPrograms[] = {
    composite("_index_put_impl_"_op, by_op<"index_put_", 0, 1, 2, 3>, "index_put_"),
    composite("_unsafe_index.Tensor"_op, by_op<"index.Tensor">, "index"),
    composite("_unsafe_index_put"_op, by_op<"index_put">, "index_put"),
    composite("_unsafe_masked_index"_op, masked_index, "index"),
    composite("_unsafe_masked_index_put_accumulate"_op, masked_index_put, "index_put"),
    composite("index_copy"_op, index_copy, {grad_index_copy, "index source:source"}, "index_put"),
    composite("isin.Scalar_Tensor"_op, number_isin, "eq and any", kNotDifferentiable),
    composite("isin.Tensor_Scalar"_op, isin_number, "eq", kNotDifferentiable),
    composite("isin.Tensor_Tensor"_op, isin, "eq and any", kNotDifferentiable),
    composite("nonzero_numpy"_op, places_of, "cumsum and scatter",
              kDataDependent | kNotDifferentiable),
    composite("one_hot"_op, one_hot, "scatter", kDataDependent | kNotDifferentiable),
    composite("put"_op, put, "index_put"),
    composite("scatter.reduce"_op, scatter_reduced, "scatter_reduce"),
    composite("scatter.value_reduce"_op, scatter_number, "scatter_reduce"),
    composite("take"_op, take, {grad_take, "self index"}, "index"),
    composite("where"_op, places_of, "cumsum and scatter", kDataDependent | kNotDifferentiable),
    composite("where.Scalar"_op, where_numbers, kConditions),
    composite("where.ScalarOther"_op, where_numbers, kConditions),
    composite("where.ScalarSelf"_op, where_numbers, kConditions),
};
// clang-format on

}  // namespace

void register_index_programs(OpRegistry& registry) { add_rows(registry, kIndexPrograms); }

}  // namespace shardlab
