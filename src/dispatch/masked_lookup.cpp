// Every rank looks up all indices. Those of rows that another rank owns give zeros, and the mask
// marks them, so that the reduction counts each row once.
#include "dispatch/masked_lookup.h"

#include <algorithm>
#include <memory>

#include "kernels/kernel_id.h"
#include "redistribute/redistribute.h"
#include "schema/op_row.h"

namespace shardlab {

KernelId mask_making_kernel(const OpRow& row, const OutputSharding& decision) {
  const auto* lookup = std::get_if<MaskedLookup>(&row.compute);
  if (lookup == nullptr || row.on_pieces) return KernelId::kNone;
  const bool pending = std::ranges::any_of(
      decision.outputs.front()->placements(),
      [](const Placement& placement) { return placement.kind == PlacementKind::kMaskPartial; });
  return pending ? lookup->masked : KernelId::kNone;
}

OutputMeta mask_meta(const LocalCall& lookup) {
  constexpr std::size_t kIndex = 1;  // of the tensors of a lookup
  return {.meta = contiguous_meta(lookup.tensors[kIndex].shape(), DType::kBool), .present = true};
}

void keep_mask(Results& results, const Tensor& mask) {
  results.front().tensor().impl()->extras = std::make_shared<TensorExtras>(TensorExtras{mask});
}

}  // namespace shardlab
