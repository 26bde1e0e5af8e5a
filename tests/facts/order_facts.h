// order_facts.h - the checker of the order of backward (tests/golden/facts/memory/README.md), for
// the table of families.
#pragma once

#include "tests/facts/check.h"

namespace shardlab {

/// Runs each program on one rank and compares the orders of its passes.
std::unique_ptr<FactChecker> make_order_checker(std::string_view stem);

}  // namespace shardlab
