// The number of elements that a mask chooses depends on data, which shape inference does not see.
// So its places are found before the call is decided, by an op of their own.
#include "dispatch/index_masks.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/text.h"
#include "kernels/kernel_id.h"
#include "redistribute/redistribute.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

bool is_index_mask(const Argument& index) {
  if (!index.is_tensor() || !index.tensor().defined()) return false;
  return index.tensor().dtype() == DType::kBool || index.tensor().dtype() == DType::kU8;
}

// The argument that holds the indices of a call, if a mask is one of them.
std::optional<std::size_t> masked_indices(const OpRow& row, const Arguments& args) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!row.op.arguments[i].type.elements_optional || !args[i].is_list()) continue;
    if (std::ranges::any_of(args[i].list(), is_index_mask)) return i;
  }
  return std::nullopt;
}

// A mask is as large as the dims that it chooses from.
void check_mask(const OpRow& row, const Dims& mask, const Dims& self, std::size_t dim) {
  const bool fits =
      dim + mask.size() <= self.size() &&
      std::equal(mask.begin(), mask.end(), self.begin() + static_cast<std::ptrdiff_t>(dim));
  if (fits) return;
  fail(ErrorKind::kValue, Fix{"give a mask of the sizes of the dims that it chooses from"},
       "{}: a mask [{}] at dim {} of a tensor [{}]", row.name(), text_of_list(mask, ", "), dim,
       text_of_list(self, ", "));
}

// A mask of several dims is a list of places in each of them.
ArgumentList with_places(Calls& plain, const OpRow& row, const Dims& self,
                         const ArgumentList& indices) {
  ArgumentList found;
  std::size_t dim = 0;
  for (const Argument& index : indices) {
    if (!is_index_mask(index)) {
      found.push_back(index);
      ++dim;
      continue;
    }
    const Dims& mask = index.tensor().shape();
    check_mask(row, mask, self, dim);
    dim += mask.size();
    const Results places = plain("aten::nonzero_numpy", {index});
    found.insert(found.end(), places[0].list().begin(), places[0].list().end());
  }
  return found;
}

}  // namespace

std::optional<Arguments> with_places_of_masks(Calls& plain, const OpRow& row,
                                              const Arguments& args) {
  const std::optional<std::size_t> masked = masked_indices(row, args);
  if (!masked) return std::nullopt;
  Arguments given = args;
  given[*masked] = with_places(plain, row, args[0].tensor().shape(), args[*masked].list());
  return given;
}

// Every rank looks up all indices. Those of rows that another rank owns give zeros, and the mask
// marks them, so that the reduction counts each row once.

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
