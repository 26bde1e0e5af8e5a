// Places among sorted boundaries that are other ones for each row, and histograms over one or
// several dims: elements are added up in the bin that their place among the edges names.
#include <algorithm>

#include "ops/family.h"

namespace shardlab {
namespace {

/// searchsorted(sorted_sequence, self, *, out_int32, right, side, sorter)
Results searchsorted(Calls& calls, const Arguments& args) {
  DTensor sorted = args[0].tensor();
  const DTensor& x = args[1].tensor();
  const bool right = args[3].to_bool() || (args[4].is_string() && args[4].string() == "right");
  if (args[5].is_tensor()) sorted = calls.one("gather", {sorted, -1, args[5]});
  if (sorted.ndim() == 1) return calls("bucketize.Tensor", {x, sorted, args[2], right});
  const bool alike = sorted.ndim() == x.ndim() && sorted.ndim() > 0 &&
                     std::equal(x.shape().begin(), x.shape().end() - 1, sorted.shape().begin());
  if (!alike) {
    fail(Fix{"give values whose dims but the last are those of the boundaries"},
         "searchsorted: the boundaries have {} dims, the values {}; all dims but the last must be "
         "the same",
         sorted.ndim(), x.ndim());
  }
  const DType dtype = args[2].to_bool() ? DType::kI32 : DType::kI64;
  if (x.numel() == 0) return {calls.one("new_zeros", {x, x.shape(), dtype})};
  require_search("searchsorted", promote(x.dtype(), sorted.dtype()));
  // A NaN is behind all: no boundary is beyond it.
  const Expression boundaries(calls, calls.one("unsqueeze", {sorted, -2}));
  const DTensor each = calls.one("unsqueeze", {x, -1});
  const Expression beyond = right ? boundaries.gt(each) : boundaries.ge(each);
  return {calls.one("sum.dim_IntList", {!beyond, Dims{-1}, false, dtype})};
}

/// searchsorted.Scalar(sorted_sequence, self, ..): of one number
Results searchsorted_number(Calls& calls, const Arguments& args) {
  Arguments given = args;
  const DType sorted = args[0].tensor().dtype();
  const Category category = args[1].scalar().category();
  const DType dtype = category > category_of(sorted) ? default_dtype(category) : sorted;
  given[1] = calls.one("new_full", {args[0], Dims{}, args[1], dtype});
  return calls("searchsorted.Tensor", given);
}

// Histograms

/// A row for each point, a column for each dim.
DTensor points_of(Calls& calls, const DTensor& x) {
  const std::int64_t dims = x.ndim() == 0 ? 1 : x.shape().back();
  return regrouped(calls, x, Dims{dims == 0 ? 0 : x.numel() / dims, dims});
}

DTensor dim_of_points(Calls& calls, const DTensor& points, std::size_t dim) {
  return calls.one("select.int", {points, 1, static_cast<std::int64_t>(dim)});
}

/// The edges of `bins` equal bins over the given range, or over that of the elements.
DTensor equal_edges(Calls& calls, const DTensor& x, std::int64_t bins, double low, double high) {
  if (bins < 1) {
    fail(Fix{"give at least one bin"}, "a histogram has {} bins; it must have at least 1", bins);
  }
  if (low == high) {
    low -= 0.5;
    high += 0.5;
  }
  const Argument from = calls.one("new_full", {x, Dims{}, low});
  const Argument to = calls.one("new_full", {x, Dims{}, high});
  return calls.one("linspace.Tensor_Tensor", {from, to, bins + 1, x.dtype()});
}

std::vector<double> bounds_of(Calls& calls, const DTensor& points, const Argument& range) {
  std::vector<double> bounds;
  if (range.is_list()) {
    for (const Argument& bound : range.list()) bounds.push_back(bound.to_double());
    return bounds;
  }
  if (range.is_ints()) {
    for (const std::int64_t bound : range.ints()) bounds.push_back(static_cast<double>(bound));
    return bounds;
  }
  for (std::int64_t dim = 0; dim < points.shape()[1]; ++dim) {
    const DTensor x = dim_of_points(calls, points, static_cast<std::size_t>(dim));
    if (x.numel() == 0) {
      bounds.insert(bounds.end(), {0, 1});
      continue;
    }
    for (const char* bound : {"min", "max"}) {
      bounds.push_back(calls("item", {calls.one(bound, {x})})[0].to_double());
    }
  }
  return bounds;
}

ArgumentList edges_of(Calls& calls, const DTensor& points, const Dims& bins,
                      const Argument& range) {
  const std::vector<double> bounds = bounds_of(calls, points, range);
  if (bins.size() != static_cast<std::size_t>(points.shape()[1]) ||
      bounds.size() != 2 * bins.size()) {
    fail(Fix{"give a number of bins and two bounds for each dim"},
         "a histogram over {} dims is given {} numbers of bins and {} bounds; it must be given one "
         "number and two bounds per dim",
         points.shape()[1], bins.size(), bounds.size());
  }
  for (std::size_t dim = 0; dim < bins.size(); ++dim) {
    if (bounds[2 * dim] <= bounds[2 * dim + 1]) continue;
    fail(Fix{"give the lower bound first"},
         "the range of a histogram is from {} to {}; its lower bound must not be above the upper "
         "one",
         bounds[2 * dim], bounds[2 * dim + 1]);
  }
  ArgumentList edges;
  for (std::size_t dim = 0; dim < bins.size(); ++dim) {
    edges.emplace_back(equal_edges(calls, points, bins[dim], bounds[2 * dim], bounds[2 * dim + 1]));
  }
  return edges;
}

/// The weight in each bin. The last bin has its upper edge, too.
DTensor weight_in_bins(Calls& calls, const DTensor& points, const ArgumentList& edges,
                       const Argument& weight, bool density) {
  Dims shape;
  for (const Argument& edge : edges) shape.push_back(edge.tensor().numel() - 1);
  DTensor inside, place;
  for (std::size_t dim = 0; dim < edges.size(); ++dim) {
    const DTensor& edge = edges[dim].tensor();
    const Expression x(calls, contiguous(calls, dim_of_points(calls, points, dim)));
    const DTensor low = calls.one("select.int", {edge, 0, 0});
    const DTensor high = calls.one("select.int", {edge, 0, -1});
    const DTensor within = x.ge(low) && x.le(high);
    const DTensor behind = calls.one("bucketize.Tensor", {x, edge, false, true});
    const DTensor bin = calls.one("clamp", {calls.one("sub.Scalar", {behind, 1}), 0,
                                            std::max<std::int64_t>(shape[dim] - 1, 0)});
    inside = dim == 0 ? within : calls.one("logical_and", {inside, within});
    place = dim == 0 ? bin
                     : calls.one("add.Tensor", {calls.one("mul.Scalar", {place, shape[dim]}), bin});
  }
  DTensor added = weight.is_tensor() ? regrouped(calls, weight.tensor(), Dims{points.shape()[0]})
                                     : calls.one("new_ones", {points, Dims{points.shape()[0]}});
  added = calls.one("masked_fill.Scalar", {added, calls.one("logical_not", {inside}), 0});
  const DTensor zeros = calls.one("new_zeros", {points, Dims{product(shape)}});
  Expression sums(calls, regrouped(calls, calls.one("index_add", {zeros, 0, place, added}), shape));
  if (!density) return sums;
  sums = sums / Expression(calls, calls.one("sum", {sums}));
  for (std::size_t dim = 0; dim < edges.size(); ++dim) {
    const DTensor& edge = edges[dim].tensor();
    DTensor widths = calls.one("sub.Tensor", {calls.one("slice.Tensor", {edge, 0, 1}),
                                              calls.one("slice.Tensor", {edge, 0, 0, -1})});
    for (std::size_t after = dim + 1; after < edges.size(); ++after) {
      widths = calls.one("unsqueeze", {widths, -1});
    }
    sums = sums / Expression(calls, widths);
  }
  return sums;
}

DTensor single_dim(Calls& calls, const DTensor& x) {
  return regrouped(calls, x, Dims{x.numel(), 1});
}

/// histogram.bin_ct(self, bins, *, range, weight, density)
Results histogram(Calls& calls, const Arguments& args) {
  const DTensor points = single_dim(calls, args[0].tensor());
  const ArgumentList edges = edges_of(calls, points, Dims{args[1].to_int()}, args[2]);
  return {weight_in_bins(calls, points, edges, args[3], args[4].to_bool()), edges[0]};
}

/// histogram.bins_tensor(self, bins, *, weight, density)
Results histogram_of_edges(Calls& calls, const Arguments& args) {
  const DTensor points = single_dim(calls, args[0].tensor());
  const DTensor edges = calls.one("clone", {args[1]});
  return {weight_in_bins(calls, points, {edges}, args[2], args[3].to_bool()), edges};
}

/// _histogramdd_bin_edges(self, bins, *, range, weight, density)
Results histogram_edges(Calls& calls, const Arguments& args) {
  return {Argument(edges_of(calls, points_of(calls, args[0].tensor()), ints_of(args[1]), args[2]))};
}

/// _histogramdd_from_bin_cts(self, bins, *, range, weight, density)
Results histogram_of_counts(Calls& calls, const Arguments& args) {
  const DTensor points = points_of(calls, args[0].tensor());
  const ArgumentList edges = edges_of(calls, points, ints_of(args[1]), args[2]);
  return {weight_in_bins(calls, points, edges, args[3], args[4].to_bool())};
}

/// _histogramdd_from_bin_tensors(self, bins, *, weight, density)
Results histogram_of_all_edges(Calls& calls, const Arguments& args) {
  const DTensor points = points_of(calls, args[0].tensor());
  return {weight_in_bins(calls, points, args[1].list(), args[2], args[3].to_bool())};
}

constexpr const char* kBins = "bucketize and index_add";
constexpr std::uint32_t kOfData = kDataDependent | kNotDifferentiable;

// Sorted by name.
// clang-format off
constexpr Row kHistogramRows[] = {
    composite("_histogramdd_bin_edges"_op, histogram_edges, "linspace", kOfData),
    composite("_histogramdd_from_bin_cts"_op, histogram_of_counts, kBins, kOfData),
    composite("_histogramdd_from_bin_tensors"_op, histogram_of_all_edges, kBins,
              kNotDifferentiable),
    composite("histogram.bin_ct"_op, histogram, kBins, kOfData),
    composite("histogram.bins_tensor"_op, histogram_of_edges, kBins, kNotDifferentiable),
    composite("searchsorted.Scalar"_op, searchsorted_number, "searchsorted.Tensor",
              kNotDifferentiable),
    composite("searchsorted.Tensor"_op, searchsorted, "bucketize, or comparisons of all",
              kNotDifferentiable),
};
// clang-format on

}  // namespace

void register_histogram(OpRegistry& registry) { add_rows(registry, kHistogramRows); }

}  // namespace shardlab
