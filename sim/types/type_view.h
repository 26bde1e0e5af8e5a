// type_view.h - the type of a tensor on another view of the same ranks: `dp_cp` for `dp, cp`. Pure.
#pragma once

#include <optional>

#include "sim/types/spmd_type.h"

namespace shardlab {

/// The same type along the dims of `to`, which are known by their ranks, whatever their names; of a
/// slice along those that it has. Empty where a dim of `to` goes over several that have different
/// types, cut a tensor dim in another order, or are only in part in it.
std::optional<TensorType> type_on(const TensorType& type, const MeshLayout& from,
                                  const MeshLayout& to);

}  // namespace shardlab
