// index_masks.h - masks among the indices of a call, as in x[x > 0] and index_put(x, [mask, None],
// v); and the mask of a lookup in a table whose rows are cut (K-18): each rank gives the rows that
// it owns, and the mask of the others stays with the pending result.
#pragma once

#include <optional>

#include "dispatch/local_call.h"
#include "schema/calls.h"

namespace shardlab {

struct OpRow;

/// The arguments of the call with the places that masks choose in their stead, as indices; nothing
/// where no index is a mask. Communicates where a mask is cut.
///   fails  Value: a mask has other sizes than the dims that it chooses from
std::optional<Arguments> with_places_of_masks(Calls& plain, const OpRow& row,
                                              const Arguments& args);

/// The kernel that also makes the mask, where the decision's output is a mask partial; kNone for
/// all other calls.
KernelId mask_making_kernel(const OpRow& row, const OutputSharding& decision);
/// The mask is the kernel's last result: bool, in the shape of the local index.
OutputMeta mask_meta(const LocalCall& lookup);
/// Gives the mask to the lookup's result.
void keep_mask(Results& results, const Tensor& mask);

}  // namespace shardlab
