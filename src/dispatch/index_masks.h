// index_masks.h - masks among the indices of a call: x[x > 0], index_put(x, [mask, None], v).
#pragma once

#include <optional>

#include "schema/calls.h"

namespace shardlab {

struct OpRow;

/// The arguments of the call with the places that masks choose in their stead, as indices; nothing
/// where no index is a mask. Communicates where a mask is cut.
///   fails  Value: a mask has other sizes than the dims that it chooses from
std::optional<Arguments> with_places_of_masks(Calls& plain, const OpRow& row,
                                              const Arguments& args);

}  // namespace shardlab
