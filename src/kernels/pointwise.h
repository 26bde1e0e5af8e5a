// pointwise.h - the kernels that apply one function to each element (element_functions.h).
#pragma once

#include "kernels/kernel_id.h"

namespace shardlab {

bool is_pointwise(KernelId id);

}  // namespace shardlab
