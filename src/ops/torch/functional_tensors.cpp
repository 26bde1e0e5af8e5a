// Functions of torch that torch writes in Python and that are not layers: norms by a word, distinct
// elements, places of non-zeros, factors of matrices.
#include "ops/family.h"
#include "ops/torch/functional.h"

namespace shardlab {
namespace {

/// norm(input, p, dim, keepdim, *, dtype): 'fro' of vectors, too; 'nuc' of matrices
Results norm_by_word(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const Dims named = ints_of(args[2]);
  if (args[1].string() == "fro" && named.size() <= 2) {
    return {calls.one("linalg_vector_norm", {x, 2, args[2], args[3], args[4]})};
  }
  Dims dims = named;
  for (std::size_t d = 0; args[2].is_none() && d < x.ndim(); ++d) {
    dims.push_back(static_cast<std::int64_t>(d));
  }
  return {calls.one("linalg_matrix_norm.str_ord", {x, args[1], dims, args[3], args[4]})};
}

/// Those of (values, inverse, counts) that are requested.
Results wanted(const Results& all, const Argument& inverse, const Argument& counts) {
  Results results{all[0]};
  if (inverse.to_bool()) results.push_back(all[1]);
  if (counts.to_bool()) results.push_back(all[2]);
  return results;
}

/// unique(input, sorted, return_inverse, return_counts, dim)
Results unique_elements(Calls& calls, const Arguments& args) {
  const Argument &inverse = args[2], &counts = args[3];
  if (args[4].is_none()) {
    return wanted(calls("_unique2", {args[0], args[1], inverse, counts}), inverse, counts);
  }
  return wanted(calls("unique_dim", {args[0], args[4], args[1], inverse, counts}), inverse, counts);
}

/// unique_consecutive(input, return_inverse, return_counts, dim)
Results unique_neighbours(Calls& calls, const Arguments& args) {
  return wanted(calls("unique_consecutive", args), args[1], args[2]);
}

/// nonzero(input, *, as_tuple): a row of places for each, or for each dim its places
Results places_that_hold(Calls& calls, const Arguments& args) {
  return calls(args[1].to_bool() ? "nonzero_numpy" : "nonzero", {args[0]});
}

/// unravel_index(indices, shape): the place along each dim
Results unravelled(Calls& calls, const Arguments& args) {
  const DTensor& indices = args[0].tensor();
  const Dims shape = ints_of(args[1]);
  if (!is_integral(indices.dtype()) || std::ranges::any_of(shape, [](auto n) { return n < 0; })) {
    fail(Fix{"give integers, and the sizes of a tensor"},
         "unravel_index: the indices are {}, the shape is [{}]; they must be integers, and no size "
         "negative",
         to_string(indices.dtype()), text_of_list(shape, ", "));
  }
  ArgumentList places;
  std::int64_t apart = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    const DTensor steps = calls.one("floor_divide.Scalar", {indices, apart});
    places.insert(places.begin(), calls.one("remainder.Scalar", {steps, shape[d]}));
    apart *= shape[d];
  }
  return {places};
}

/// lu(A, pivot, get_infos): packed factors and pivots, and error codes, where requested
Results packed_factors(Calls& calls, const Arguments& args) {
  Results results = calls("linalg_lu_factor_ex", {args[0], args[1], !args[2].to_bool()});
  if (!args[2].to_bool()) {
    calls("_linalg_check_errors", {results[2], "torch.lu", args[0].tensor().ndim() == 2});
    results.pop_back();
  }
  return results;
}

constexpr const char* kDistinct = "ne, cumsum and index_select";
constexpr std::uint32_t kByData = kDataDependent | kNotDifferentiable;

// Sorted by name.
// clang-format off
constexpr FunctionRow kTensorFunctions[] = {
    {"functional::argwhere(Tensor input) -> Tensor"_op, by_op<"nonzero", 0>, "nonzero", kByData},
    {"functional::lu(Tensor A, bool pivot=True, bool get_infos=False) -> Tensor"_op, packed_factors,
     "linalg_lu_factor_ex"},
    {"functional::nonzero(Tensor input, *, bool as_tuple) -> Tensor"_op, places_that_hold,
     "nonzero_numpy", kByData},
    {"functional::norm(Tensor input, str p, int[1]? dim=None, bool keepdim=False, *, ScalarType? "
     "dtype=None) -> Tensor"_op, norm_by_word, "linalg_vector_norm, or singular values"},
    {"functional::unique(Tensor input, bool sorted=True, bool return_inverse=False, bool "
     "return_counts=False, int? dim=None) -> Tensor"_op, unique_elements, kDistinct, kByData},
    {"functional::unique_consecutive(Tensor input, bool return_inverse=False, bool "
     "return_counts=False, int? dim=None) -> Tensor"_op, unique_neighbours, kDistinct, kByData},
    {"functional::unravel_index(Tensor indices, int[1] shape) -> Tensor[]"_op, unravelled,
     "floor_divide and remainder", kNotDifferentiable},
};
// clang-format on

}  // namespace

std::span<const FunctionRow> tensor_functions() { return kTensorFunctions; }

}  // namespace shardlab
