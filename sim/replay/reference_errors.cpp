// Rows are of values alone: placements and moves that are others than ours are rules.
#include "sim/replay/reference_errors.h"

#include <algorithm>

namespace shardlab {

namespace {

bool is_cut(const DTensor& x, std::int64_t dim) {
  return x.distributed() && std::ranges::any_of(x.spec()->placements(), [&](const Placement& p) {
           return p.is_shard(dim);
         });
}

bool always(const RecordedEvent&, const std::vector<DTensor>&) { return true; }

// The index is shorter along a dim that is cut, and that is not gathered along.
bool has_short_index(const RecordedEvent& event, const std::vector<DTensor>& operands) {
  if (operands.size() < 2 || event.args.size() < 2) return false;
  const DTensor &x = operands[0], &index = operands[1];
  const auto ndim = static_cast<std::int64_t>(std::min(x.shape().size(), index.shape().size()));
  const auto* given = std::get_if<Scalar>(&event.args[1].value);
  std::int64_t along = given != nullptr ? given->to_int() : 0;
  if (along < 0) along += ndim;
  for (std::int64_t dim = 0; dim < ndim; ++dim) {
    const auto at = static_cast<std::size_t>(dim);
    const bool cut = is_cut(x, dim) || is_cut(index, dim);
    if (dim != along && cut && index.shape()[at] < x.shape()[at]) return true;
  }
  return false;
}

// Without a batch dim 1 is one of the two that are pooled.
bool pools_without_batch(const RecordedEvent&, const std::vector<DTensor>& operands) {
  return std::ranges::any_of(
      operands, [](const DTensor& x) { return x.shape().size() == 3 && is_cut(x, 1); });
}

constexpr ReferenceError kRows[] = {
    {"_standard_gamma_grad", "X-70", "its formulas are off by up to 6e-4 of the gradient", 6e-4,
     always},
    {"gather", "X-68", "a cut along a dim where the index is shorter takes other rows", 1,
     has_short_index},
    {"_adaptive_avg_pool2d_backward", "X-69", "a dim that is pooled is cut as if it were channels",
     1, pools_without_batch},
};

}  // namespace

const ReferenceError* reference_error(const RecordedEvent& event,
                                      const std::vector<DTensor>& operands) {
  const std::string_view op = bare_op(event.op);
  for (const ReferenceError& row : kRows) {
    if (row.op == op && row.has_form(event, operands)) return &row;
  }
  return nullptr;
}

}  // namespace shardlab
