// memory_facts.h - the checker of what autograd keeps (tests/golden/facts/memory/README.md), for
// the table of families.
#pragma once

#include "sim/facts/check.h"

namespace shardlab {

/// Runs each call on one rank and compares what its graph keeps.
std::unique_ptr<FactChecker> make_saved_checker(std::string_view stem);

}  // namespace shardlab
