// chain_facts.h - the checker of the chain facts (tests/golden/facts/chains/README.md), for the
// table of families.
#pragma once

#include "tests/facts/check.h"

namespace shardlab {

/// Runs each program on one rank, then under drawn placements.
std::unique_ptr<FactChecker> make_chain_checker(std::string_view stem);

}  // namespace shardlab
