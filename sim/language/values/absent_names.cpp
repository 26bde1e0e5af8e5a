// A sorted table, searched by halves: the names of torch that users try first, with advice on what
// to write instead.
#include "sim/language/values/absent_names.h"

#include <fmt/format.h>

#include <algorithm>

namespace shardlab {

namespace {

// Sorted by name.
// clang-format off
constexpr AbsentName kRows[] = {
    {"DeviceMesh", "the dims under [mesh]; the program has it as mesh"},
    {"all_gather_into_tensor", "dist.all_gather_into_tensor(out, t), or all_gather(t, dim)"},
    {"autocast", "x.to(bf16) where it is wanted"},
    {"clip_grad_norm_", "the norm of the gradients, and their product with a factor"},
    {"euler_gamma", "the number"},
    {"np", "ops on tensors: arange(4), x.sum()"},
    {"numpy", "x.tolist()"},
    {"optim", "the step itself: w = w - lr * w.grad"},
    {"parameters", "the inputs by their names"},
    {"reduce_scatter_tensor", "dist.reduce_scatter_tensor(out, t), or reduce_scatter(t, sum, 0)"},
    {"shard_map", "x.to_local(), ops on pieces, and from_local(t, mesh=mesh, tp=S(0))"},
    {"zero_grad", "w = w.detach().requires_grad_(), which has no gradient yet"},
};
// clang-format on
static_assert(std::ranges::is_sorted(kRows, {}, &AbsentName::name));

}  // namespace

std::span<const AbsentName> absent_names() { return kRows; }

std::string advice_on(std::string_view name) {
  const auto* row = std::ranges::lower_bound(kRows, name, {}, &AbsentName::name);
  if (row == std::end(kRows) || row->name != name) return "";
  return fmt::format("programs do not have it: write {}", row->instead);
}

}  // namespace shardlab
