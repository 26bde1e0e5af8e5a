// masked_lookup.h - a lookup in a table whose rows are cut (K-18): each rank gives the rows that it
// owns, and a mask of the others, which stays with the pending result.
#pragma once

#include "dispatch/local_call.h"

namespace shardlab {

/// The kernel that also makes the mask, where the decision's output is a mask partial; kNone for
/// all other calls.
KernelId mask_making_kernel(const OpRow& row, const OutputSharding& decision);
/// The mask is the kernel's last result: bool, in the shape of the local index.
OutputMeta mask_meta(const LocalCall& lookup);
/// Gives the mask to the lookup's result.
void keep_mask(Results& results, const Tensor& mask);

}  // namespace shardlab
