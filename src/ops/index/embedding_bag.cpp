// Bags of rows of a table: sums, means and maxima of the rows that each bag names. The further
// results are those of the reference, whose gradients start from them.
#include <limits>

#include "ops/family.h"

namespace shardlab {
namespace {

enum class BagMode : std::uint8_t { kSum = 0, kMean = 1, kMax = 2 };

/// The bag of each index, by the beginnings of bags.
DTensor bag_by_offsets(Calls& calls, const DTensor& indices, const DTensor& begins) {
  const DTensor places = counted(calls, indices, indices.numel(), indices.dtype());
  const DTensor behind = calls.one("bucketize.Tensor", {places, begins, false, true});
  return calls.one("sub.Scalar", {behind, 1});
}

/// _embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
/// include_last_offset, padding_idx)
struct Bags {
  Bags(Calls& calls, const Arguments& args)
      : calls(calls),
        weight(args[0].tensor()),
        indices(cast_to(calls, args[1].tensor(), DType::kI64)),
        offsets(cast_to(calls, args[2].tensor(), DType::kI64)),
        mode(static_cast<BagMode>(args[4].to_int())),
        count(offsets.numel() - (args[7].to_bool() ? 1 : 0)) {
    if (weight.ndim() != 2 || indices.ndim() != 1 || offsets.ndim() != 1 || count < 0) {
      fail(Fix{"give a matrix, a list of indices and where each bag begins"},
           "_embedding_bag takes a table of 2 dims, indices and offsets of 1, not of {}, {} and {}",
           weight.ndim(), indices.ndim(), offsets.ndim());
    }
    const std::int64_t rows = weight.shape()[0];
    padding = args[8].to_int() < 0 ? -1 : args[8].to_int();
    const DTensor begins = calls.one("slice.Tensor", {offsets, 0, 0, count});
    bag = bag_by_offsets(calls, indices, begins);
    counts = calls.one("ne.Scalar", {indices, padding < 0 ? rows : padding});
  }

  /// The named rows, scaled, and `filled` where they do not count.
  DTensor named(const Argument& scales, double filled) const {
    DTensor rows = calls.one("index_select", {weight, 0, indices});
    if (scales.is_tensor()) {
      rows = calls.one("mul.Tensor", {rows, calls.one("unsqueeze", {scales, 1})});
    }
    const DTensor left = calls.one("unsqueeze", {calls.one("logical_not", {counts}), 1});
    return calls.one("masked_fill.Scalar", {rows, left, filled});
  }

  /// Number of rows that count in each bag.
  DTensor sizes() const {
    const DTensor zeros = calls.one("new_zeros", {indices, Dims{count}});
    return calls.one("index_add", {zeros, 0, bag, cast_to(calls, counts, DType::kI64)});
  }

  Calls& calls;
  const DTensor& weight;
  DTensor indices, offsets;
  BagMode mode;
  std::int64_t count;
  std::int64_t padding = -1;
  DTensor bag;     // of each index
  DTensor counts;  // whether it does
};

DTensor added_up(const Bags& bags, const Argument& scales) {
  Calls& calls = bags.calls;
  const Dims shape{bags.count, bags.weight.shape()[1]};
  const DTensor zeros = calls.one("new_zeros", {bags.weight, shape});
  const DTensor sums = calls.one("index_add", {zeros, 0, bags.bag, bags.named(scales, 0)});
  if (bags.mode == BagMode::kSum) return sums;
  const DTensor sizes = calls.one("clamp", {bags.sizes(), 1});
  return calls.one("div.Tensor", {sums, calls.one("unsqueeze", {sizes, 1})});
}

/// The largest of each column, and its row in the table; nothing for empty bags.
std::pair<DTensor, DTensor> largest(const Bags& bags) {
  Calls& calls = bags.calls;
  const std::int64_t width = bags.weight.shape()[1];
  const Dims shape{bags.count, width}, each{bags.indices.numel(), width};
  const DTensor rows = bags.named({}, -std::numeric_limits<double>::infinity());
  const DTensor places = calls.one("expand", {calls.one("unsqueeze", {bags.bag, 1}), each});
  const DTensor room = calls.one("new_zeros", {rows, shape});
  const DTensor most = calls.one("scatter_reduce.two", {room, 0, places, rows, "amax", false});
  const DTensor empty = calls.one("unsqueeze", {calls.one("eq.Scalar", {bags.sizes(), 0}), 1});
  const DTensor result = calls.one("masked_fill.Scalar", {most, empty, 0});
  const DTensor is_most = calls.one("eq.Tensor", {rows, calls.one("gather", {most, 0, places})});
  const DTensor row = calls.one("expand", {calls.one("unsqueeze", {bags.indices, 1}), each});
  const DTensor none = calls.one(
      "masked_fill.Scalar", {row, calls.one("logical_not", {is_most}), bags.weight.shape()[0]});
  const DTensor found = calls.one(
      "scatter_reduce.two", {calls.one("new_zeros", {row, shape}), 0, places, none, "amin", false});
  return {result, calls.one("masked_fill.Scalar", {found, empty, 0})};
}

/// Whether the reference adds up rows that are in one piece, of the dtypes for which it does.
bool sums_at_once(const Bags& bags, const Argument& scales) {
  const auto step = [](const DTensor& x, std::size_t dim) {
    return x.distributed() ? x.spec()->meta().stride[dim] : x.local().stride()[dim];
  };
  const DType dtype = bags.weight.dtype();
  return bags.mode == BagMode::kSum && bags.padding < 0 &&
         (dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16) &&
         step(bags.weight, 1) == 1 && (!scales.is_tensor() || step(scales.tensor(), 0) == 1);
}

/// The second result is left out where a sum needs no bag of each index; a forward pass alone
/// leaves room for the last offset in addition to the sizes of sums. The last result of a mean
/// holds the sizes again.
template <bool forward_only>
Results embedding_bag(Calls& calls, const Arguments& args) {
  const Bags bags(calls, args);
  const bool fast = sums_at_once(bags, args[6]);
  const DTensor bag =
      fast ? calls.one("new_zeros", {bags.indices, Dims{0}}) : calls.one("clone", {bags.bag});
  if (bags.mode == BagMode::kSum) {
    const std::int64_t room = forward_only ? bags.offsets.numel() : bags.count;
    const DTensor zeros = calls.one("new_zeros", {bags.indices, Dims{room}});
    return {added_up(bags, args[6]), bag, zeros, calls.one("clone", {zeros})};
  }
  if (bags.mode == BagMode::kMean) {
    const DTensor sizes = bags.sizes();
    return {added_up(bags, args[6]), bag, sizes, calls.one("clone", {sizes})};
  }
  const auto [result, rows] = largest(bags);
  return {result, bag, bags.sizes(), rows};
}

/// embedding_bag(weight, indices, offsets, .., include_last_offset), and with padding_idx
Results embedding_bags(Calls& calls, const Arguments& args) {
  constexpr std::size_t kPadding = 8;
  Arguments given = args;
  const bool padded = args.size() > kPadding && !args[kPadding].is_none();
  given.resize(kPadding);
  given.emplace_back(padded ? padding_row("embedding_bag", args[kPadding], args[0])
                            : std::int64_t{-1});
  return calls("_embedding_bag", given);
}

// The gradients of bags: the amount that each index adds to its bag, and receives back from it.

/// The bag of each index: saved by forward, otherwise derived from the bags' offsets.
DTensor bag_of_each(Calls& calls, const DTensor& indices, const DTensor& offsets,
                    const DTensor& kept) {
  return kept.numel() == indices.numel() ? cast_to(calls, kept, DType::kI64)
                                         : bag_by_offsets(calls, indices, offsets);
}

/// One number per row, as a column.
Expression for_rows(Calls& calls, const DTensor& factors) {
  return {calls, calls.one("unsqueeze", {factors, 1})};
}

void refuse_sparse(bool sparse) {
  if (!sparse) return;
  fail(ErrorKind::kUnsupported, Fix{"pass sparse=False"},
       "_embedding_bag_backward: sparse gradients do not exist here");
}

/// Gradients of bags, one row each, and lists of indices and of beginnings of bags.
void check_bags(const char* op, const DTensor& gradient, const DTensor& indices,
                const DTensor& offsets) {
  if (gradient.ndim() == 2 && indices.ndim() == 1 && offsets.ndim() == 1) return;
  fail(Fix{"give a row for each bag, a list of indices and where each bag begins"},
       "{} takes gradients of 2 dims, indices and offsets of 1, not of {}, {} and {}", op,
       gradient.ndim(), indices.ndim(), offsets.ndim());
}

/// _embedding_bag_backward(grad, indices, offsets, offset2bag, bag_size, maximum_indices,
/// num_weights, scale_grad_by_freq, mode, sparse, per_sample_weights, padding_idx)
Results embedding_bag_backward(Calls& calls, const Arguments& args) {
  const DTensor& gradient = args[0].tensor();
  const DTensor indices = cast_to(calls, args[1].tensor(), DType::kI64);
  const DTensor offsets = cast_to(calls, args[2].tensor(), DType::kI64);
  const std::int64_t rows = args[6].to_int();
  check_bags("_embedding_bag_backward", gradient, indices, offsets);
  refuse_sparse(args[9].to_bool());
  const DTensor table = calls.one("new_zeros", {gradient, Dims{rows, gradient.shape().back()}});
  const auto mode = static_cast<BagMode>(args[8].to_int());
  if (mode == BagMode::kMax) {
    const Expression filled = for_rows(calls, args[4].tensor()).gt(0);
    const DTensor shares = Expression(calls, gradient).filled(!filled, 0);
    return {calls.one("scatter_add",
                      {table, 0, cast_to(calls, args[5].tensor(), DType::kI64), shares})};
  }
  const DTensor bag = bag_of_each(calls, indices, offsets, args[3].tensor());
  Expression each(calls, calls.one("index_select", {gradient, 0, bag}));
  if (args[10].is_tensor()) each = each * for_rows(calls, args[10].tensor());
  if (mode == BagMode::kMean) {
    each = each / for_rows(calls, calls.one("index_select", {args[4], 0, bag}));
  }
  if (args[7].to_bool()) {
    const DTensor none = calls.one("new_zeros", {indices, Dims{rows}});
    const DTensor ones = calls.one("ones_like", {indices});
    const DTensor counts = calls.one("index_add", {none, 0, indices, ones});
    each = each / for_rows(calls, calls.one("index_select", {counts, 0, indices}));
  }
  if (args[11].to_int() >= 0) each = each.filled(for_rows(calls, indices).eq(args[11]), 0);
  return {calls.one("index_add", {table, 0, indices, each})};
}

/// _embedding_bag_per_sample_weights_backward(grad, weight, indices, offsets, offset2bag, mode,
/// padding_idx)
Results sample_weights_backward(Calls& calls, const Arguments& args) {
  const DTensor indices = cast_to(calls, args[2].tensor(), DType::kI64);
  const DTensor offsets = cast_to(calls, args[3].tensor(), DType::kI64);
  check_bags("_embedding_bag_per_sample_weights_backward", args[0].tensor(), indices, offsets);
  const DTensor bag = bag_of_each(calls, indices, offsets, args[4].tensor());
  const Expression back(calls, calls.one("index_select", {args[0], 0, bag}));
  const Expression rows(calls, calls.one("index_select", {args[1], 0, indices}));
  const Expression each(calls, calls.one("sum.dim_IntList", {back * rows, Dims{1}}));
  if (args[6].to_int() < 0) return {each};
  return {each.filled(Expression(calls, indices).eq(args[6]), 0)};
}

/// embedding_renorm_(self, indices, max_norm, norm_type): rows that are named and too long are
/// shortened in place
Results embedding_renorm(Calls& calls, const Arguments& args) {
  const DTensor& table = args[0].tensor();
  const DTensor indices = regrouped(calls, args[1].tensor(), Dims{args[1].tensor().numel()});
  const double most = args[2].to_double();
  const Expression norm(calls, calls.one("linalg_vector_norm", {table, args[3], Dims{1}}));
  const DTensor none = calls.one("new_zeros", {table, Dims{table.shape()[0]}, DType::kBool});
  const Expression named(calls, calls.one("index_fill.int_Scalar", {none, 0, indices, true}));
  const Expression factor(calls, calls.one("reciprocal", {norm + 1e-7}));
  const Expression scale = (factor * most).filled(!(named && norm.gt(most)), 1.0);
  calls("mul_.Tensor", {table, calls.one("unsqueeze", {scale, 1})});
  return {args[0]};
}

constexpr const char* kBags = "index_select and index_add";

// Sorted by name.
// clang-format off
constexpr Row kBagRows[] = {
    composite("_embedding_bag"_op, embedding_bag<false>, kBags),
    composite("_embedding_bag_backward"_op, embedding_bag_backward, kBags),
    composite("_embedding_bag_forward_only"_op, embedding_bag<true>, kBags),
    composite("_embedding_bag_per_sample_weights_backward"_op, sample_weights_backward,
              "index_select and sum"),
    composite("embedding_bag"_op, embedding_bags, kBags),
    composite("embedding_bag.padding_idx"_op, embedding_bags, kBags),
    composite("embedding_renorm_"_op, embedding_renorm, "mul_", kNotDifferentiable),
};
// clang-format on

}  // namespace

void register_embedding_bag(OpRegistry& registry) { add_rows(registry, kBagRows); }

}  // namespace shardlab
