// Composite ops whose number of elements depends on data: places of non-zeros, elements that a mask
// chooses, elements that differ from their neighbours, counts of numbers.
#include <algorithm>

#include "ops/family.h"

namespace shardlab {
namespace {

DTensor in_one_row(Calls& calls, const DTensor& x) { return regrouped(calls, x, Dims{x.numel()}); }

DTensor no_integers(Calls& calls, const DTensor& x) {
  return calls.one("new_zeros", {x, Dims{0}, DType::kI64});
}

/// For each dim the places of non-zeros, in row-major order.
ArgumentList places_of_all(Calls& calls, const DTensor& x) {
  return calls("nonzero_numpy", {x})[0].list();
}

/// nonzero(self): a row of places for each
Results nonzero(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const ArgumentList places = places_of_all(calls, x);
  const DTensor& first = places.at(0).tensor();
  if (x.ndim() > 0) return {calls.one("stack", {places, -1})};
  return {calls.one("new_zeros", {first, Dims{first.numel(), 0}})};
}

/// nonzero_static(self, *, size, fill_value): the first `size` rows, filled up
Results nonzero_static(Calls& calls, const Arguments& args) {
  const std::int64_t size = args[1].to_int();
  if (size < 0) {
    fail(Fix{"give a size of at least 0"}, "nonzero_static: size is {}; it must not be negative",
         size);
  }
  const DTensor all = calls.one("nonzero", {args[0]});
  const std::int64_t found = all.shape()[0];
  if (found >= size) return {calls.one("slice.Tensor", {all, 0, 0, size})};
  const DTensor rest = calls.one("new_full", {all, Dims{size - found, all.shape()[1]}, args[2]});
  return {calls.one("cat", {ArgumentList{all, rest}, 0})};
}

void require_mask(std::string_view op, const DTensor& mask) {
  if (mask.dtype() == DType::kBool) return;
  fail(Fix{"compare it with a number: x != 0"}, "{}: the mask is {}, must be bool", op,
       to_string(mask.dtype()));
}

/// masked_select(self, mask)
Results masked_select(Calls& calls, const Arguments& args) {
  require_mask("masked_select", args[1].tensor());
  const Results both = calls("broadcast_tensors", {ArgumentList{args[0], args[1]}});
  const DTensor x = in_one_row(calls, both[0].list().at(0).tensor());
  const DTensor mask = in_one_row(calls, both[0].list().at(1).tensor());
  return {calls.one("index.Tensor", {x, ArgumentList{places_of_all(calls, mask).at(0)}})};
}

/// masked_scatter(self, mask, source): the elements of source, one after the other, where mask
/// holds
Results masked_scatter(Calls& calls, const Arguments& args) {
  require_mask("masked_scatter", args[1].tensor());
  const Results both = calls("broadcast_tensors", {ArgumentList{args[0], args[1]}});
  const DTensor& x = both[0].list().at(0).tensor();
  const DTensor mask = in_one_row(calls, both[0].list().at(1).tensor());
  const DTensor source = in_one_row(calls, args[2].tensor());
  const Argument places = places_of_all(calls, mask).at(0);
  const std::int64_t count = places.tensor().numel();
  if (source.dtype() != x.dtype() || source.numel() < count) {
    fail(Fix{"give as many elements as the mask chooses, in the tensor's dtype"},
         "masked_scatter: the mask chooses {} elements of {}, the source has {} of {}; it must "
         "have as many, of the same dtype",
         count, to_string(x.dtype()), source.numel(), to_string(source.dtype()));
  }
  const DTensor values = calls.one("slice.Tensor", {source, 0, 0, count});
  const DTensor result =
      calls.one("index_put", {in_one_row(calls, x), ArgumentList{places}, values});
  return {regrouped(calls, result, x.shape())};
}

/// masked_scatter_backward(grad_output, mask, sizes): of the source
Results masked_scatter_backward(Calls& calls, const Arguments& args) {
  const Dims sizes = ints_of(args[2]);
  const DTensor chosen = calls.one("masked_select", {args[0], args[1]});
  const std::int64_t missing = std::max<std::int64_t>(product(sizes) - chosen.numel(), 0);
  const DTensor rest = calls.one("new_zeros", {chosen, Dims{missing}});
  const DTensor all = calls.one("cat", {ArgumentList{chosen, rest}, 0});
  return {regrouped(calls, all, sizes)};
}

/// Whether a sequence has a place at a step, [time, batch].
DTensor steps_of(Calls& calls, const DTensor& lengths, std::int64_t time) {
  const DTensor step = calls.one("unsqueeze", {counted(calls, lengths, time), -1});
  return calls.one("gt.Tensor", {calls.one("unsqueeze", {lengths, 0}), step});
}

/// _pack_padded_sequence(input, lengths, batch_first): the steps of all sequences, step by step,
/// and how many have each
Results pack_padded(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const bool swaps = args[2].to_bool();
  const DTensor by_step = swaps ? calls.one("transpose.int", {x, 0, 1}) : x;
  const DTensor there = steps_of(calls, args[1].tensor(), by_step.shape()[0]);
  const DTensor counts = calls.one("sum.dim_IntList", {there, Dims{1}});
  const DTensor any = calls.one("gt.Scalar", {counts, 0});
  return {calls.one("index.Tensor", {by_step, places_of_all(calls, there)}),
          calls.one("masked_select", {counts, any})};
}

/// _pack_padded_sequence_backward(grad, input_size, batch_sizes, batch_first): 0 behind the ends
Results pack_padded_backward(Calls& calls, const Arguments& args) {
  Dims sizes = ints_of(args[1]);
  const bool swaps = args[3].to_bool();
  if (swaps) std::swap(sizes[0], sizes[1]);
  const DTensor counts = args[2].tensor();
  // No sequence is longer than there are counts.
  const DTensor none = calls.one("new_zeros", {counts, Dims{sizes[0] - counts.numel()}});
  const DTensor all = calls.one("cat", {ArgumentList{counts, none}, 0});
  const DTensor row = calls.one("unsqueeze", {counted(calls, counts, sizes[1]), 0});
  const DTensor there = calls.one("gt.Tensor", {calls.one("unsqueeze", {all, -1}), row});
  const DTensor result = calls.one("index_put", {calls.one("new_zeros", {args[0], sizes}),
                                                 places_of_all(calls, there), args[0]});
  return {swaps ? calls.one("transpose.int", {result, 0, 1}) : result};
}

/// repeat_interleave.Tensor(repeats, *, output_size): each place as often as its number
Results repeated_places(Calls& calls, const Arguments& args) {
  const DTensor& repeats = args[0].tensor();
  const DTensor places =
      calls.one("_to_copy", {counted(calls, repeats, repeats.numel()), repeats.dtype()});
  return calls("repeat_interleave.self_Tensor", {places, repeats, 0, args[1]});
}

/// bincount(self, weights, minlength)
Results bincount(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const std::int64_t least = args[2].to_int();
  if (x.ndim() != 1 || !is_integral(x.dtype()) || least < 0) {
    fail(Fix{"give integers in one dim, and a minlength of at least 0"},
         "bincount: the tensor is {} of {} dims, minlength is {}; they must be integers of one "
         "dim, and at least 0",
         to_string(x.dtype()), x.ndim(), least);
  }
  std::int64_t size = least;
  if (x.numel() > 0) {
    if (integer_in(calls, calls.one("min", {x})) < 0) {
      fail(Fix{"give numbers of at least 0"}, "bincount: a number is negative");
    }
    size = std::max(size, integer_in(calls, calls.one("max", {x})) + 1);
  }
  DTensor weights = calls.one("new_ones", {x, x.shape(), DType::kI64});
  if (args[1].is_tensor()) {
    const bool single = args[1].tensor().dtype() == DType::kF32;
    weights = cast_to(calls, args[1].tensor(), single ? DType::kF32 : DType::kF64);
  }
  const DTensor zeros = calls.one("new_zeros", {weights, Dims{size}});
  return calls("index_add", {zeros, 0, cast_to(calls, x, DType::kI64), weights});
}

// Elements, or slices along dim 0, that differ from the one before.

struct Runs {
  DTensor values, inverse, counts;
};

DTensor slice_of(Calls& calls, const DTensor& x, const Argument& from, const Argument& to) {
  return calls.one("slice.Tensor", {x, 0, from, to});
}

/// Finds runs among the rows of a matrix.
Runs runs_of(Calls& calls, const DTensor& rows) {
  const std::int64_t count = rows.shape()[0];
  if (count == 0) return {rows, no_integers(calls, rows), no_integers(calls, rows)};
  const DTensor differs = calls.one(
      "any.dim",
      {calls.one("ne.Tensor", {slice_of(calls, rows, 1, {}), slice_of(calls, rows, 0, count - 1)}),
       1});
  const DTensor first = calls.one("new_ones", {differs, Dims{1}});
  const DTensor begins = calls.one("cat", {ArgumentList{first, differs}, 0});
  const DTensor inverse =
      calls.one("sub.Scalar", {calls.one("cumsum", {begins, 0, DType::kI64}), 1});
  const DTensor starts = places_of_all(calls, begins).at(0).tensor();
  const DTensor end = calls.one("new_full", {starts, Dims{1}, count});
  const DTensor ends = calls.one("cat", {ArgumentList{slice_of(calls, starts, 1, {}), end}, 0});
  return {calls.one("index_select", {rows, 0, starts}), inverse,
          calls.one("sub.Tensor", {ends, starts})};
}

DTensor column_of(Calls& calls, const DTensor& x) {
  return regrouped(calls, x, Dims{x.numel(), 1});
}

/// Rows in ascending order, the first column counting most, and the old place of each.
std::pair<DTensor, DTensor> sorted_rows(Calls& calls, const DTensor& rows) {
  DTensor order = counted(calls, rows, rows.shape()[0]);
  for (std::int64_t column = rows.shape()[1]; column-- > 0;) {
    const DTensor keys =
        calls.one("index_select", {calls.one("select.int", {rows, 1, column}), 0, order});
    const Results sorted = calls("sort.stable", {keys, true, 0, false});
    order = calls.one("index_select", {order, 0, sorted[1].tensor()});
  }
  return {calls.one("index_select", {rows, 0, order}), order};
}

/// The runs of sorted rows, by the rows in their old order.
Runs sorted_runs(Calls& calls, const DTensor& rows) {
  const auto [sorted, order] = sorted_rows(calls, rows);
  Runs runs = runs_of(calls, sorted);
  if (rows.shape()[0] == 0) return runs;
  const DTensor room = calls.one("zeros_like", {runs.inverse});
  runs.inverse = calls.one("index_put", {room, ArgumentList{order}, runs.inverse});
  return runs;
}

Results of_elements(Calls& calls, const DTensor& x, const Runs& runs, const Argument& inverse,
                    const Argument& counts) {
  return {in_one_row(calls, runs.values),
          inverse.to_bool() ? regrouped(calls, runs.inverse, x.shape()) : no_integers(calls, x),
          counts.to_bool() ? runs.counts : no_integers(calls, x)};
}

/// Slices along dim as rows of a matrix, and back.
Results of_slices(Calls& calls, const DTensor& x, const Argument& dim, auto find) {
  const DTensor turned = calls.one("movedim.int", {x, dim, 0});
  const std::int64_t count = turned.shape()[0];
  const std::int64_t width = count == 0 ? 0 : turned.numel() / count;
  const Runs runs = find(calls, regrouped(calls, turned, Dims{count, width}));
  Dims shape = turned.shape();
  shape[0] = runs.values.shape()[0];
  const DTensor values = regrouped(calls, runs.values, shape);
  return {calls.one("movedim.int", {values, 0, dim}), runs.inverse, runs.counts};
}

/// unique_consecutive(self, return_inverse, return_counts, dim)
Results unique_consecutive(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  // ATen takes dim 0 of a list as none, and -1 as a dim.
  if (!args[3].is_none() && !(x.ndim() == 1 && args[3].to_int() == 0)) {
    return calls("unique_dim_consecutive", {x, args[3], args[1], args[2]});
  }
  return of_elements(calls, x, runs_of(calls, column_of(calls, x)), args[1], args[2]);
}

/// unique_dim_consecutive(self, dim, return_inverse, return_counts): always gives both
Results unique_dim_consecutive(Calls& calls, const Arguments& args) {
  return of_slices(calls, args[0].tensor(), args[1], runs_of);
}

/// _unique2(self, sorted, return_inverse, return_counts)
Results unique2(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  return of_elements(calls, x, sorted_runs(calls, column_of(calls, x)), args[2], args[3]);
}

/// _unique(self, sorted, return_inverse)
Results unique(Calls& calls, const Arguments& args) {
  Results all = unique2(calls, {args[0], args[1], args[2], false});
  all.pop_back();
  return all;
}

/// unique_dim(self, dim, sorted, return_inverse, return_counts): always gives both
Results unique_dim(Calls& calls, const Arguments& args) {
  return of_slices(calls, args[0].tensor(), args[1], sorted_runs);
}

constexpr const char* kPlaces = "nonzero_numpy and index";
constexpr const char* kRuns = "ne, cumsum and index_select";
constexpr std::uint32_t kCounts = kDataDependent | kNotDifferentiable;

// Sorted by name.
// clang-format off
constexpr Row kDataPrograms[] = {
    composite("_pack_padded_sequence"_op, pack_padded, kPlaces, kDataDependent),
    composite("_pack_padded_sequence_backward"_op, pack_padded_backward, kPlaces, kDataDependent),
    composite("_unique"_op, unique, kRuns, kCounts),
    composite("_unique2"_op, unique2, kRuns, kCounts),
    composite("bincount"_op, bincount, "index_add", kCounts),
    composite("masked_scatter"_op, masked_scatter, kPlaces, kDataDependent),
    composite("masked_scatter_backward"_op, masked_scatter_backward, kPlaces, kDataDependent),
    composite("masked_select"_op, masked_select, kPlaces, kDataDependent),
    composite("nonzero"_op, nonzero, "nonzero_numpy and stack", kCounts),
    composite("nonzero_static"_op, nonzero_static, "nonzero", kCounts),
    composite("repeat_interleave.Tensor"_op, repeated_places, "repeat_interleave", kCounts),
    composite("unique_consecutive"_op, unique_consecutive, kRuns, kCounts),
    composite("unique_dim"_op, unique_dim, kRuns, kCounts),
    composite("unique_dim_consecutive"_op, unique_dim_consecutive, kRuns, kCounts),
};
// clang-format on

}  // namespace

void register_data_programs(OpRegistry& registry) { add_rows(registry, kDataPrograms); }

}  // namespace shardlab
