// check_families.h - the kinds of facts that there are.
#pragma once

#include <span>

#include "tests/facts/check.h"

namespace shardlab {

/// All families, looked through in order.
std::span<const CheckFamily> check_families();

}  // namespace shardlab
