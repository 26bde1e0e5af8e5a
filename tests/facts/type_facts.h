// type_facts.h - the checker of facts about types of plain tensors (tests/golden/facts/types), for
// the table of families.
#pragma once

#include "tests/facts/check.h"

namespace shardlab {

/// Types that ops, moves, collectives, einsum rules and losses give, or that they are refused.
std::unique_ptr<FactChecker> make_type_checker(std::string_view stem);

}  // namespace shardlab
