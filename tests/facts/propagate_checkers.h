// propagate_checkers.h - checkers of the propagation facts, for the table of families.
#pragma once

#include <memory>
#include <string_view>

#include "tests/facts/check.h"

namespace shardlab {

/// Decisions: the files named after op families.
std::unique_ptr<FactChecker> make_propagate_checker(std::string_view stem);
/// A decision of an op that the reference takes apart into others: compared with the call on a mesh
/// without data.
void check_decomposed(const Json& fact, CaseReport& report);
/// Whole candidate lists: strategies.jsonl.
std::unique_ptr<FactChecker> make_strategy_checker(std::string_view stem);

}  // namespace shardlab
