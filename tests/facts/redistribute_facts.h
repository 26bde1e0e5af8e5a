// redistribute_facts.h - the facts of redistribution (tests/golden/facts/redistribute/README.md):
// one function per kind of file.
#pragma once

#include "plan/plan.h"
#include "tests/facts/check.h"

namespace shardlab {

/// Source and target of a line, in `arena`: fields mesh, shape, dtype, src, dst, src_order,
/// dst_order.
struct SpecPair {
  const DTensorSpec* source;
  const DTensorSpec* target;
};
SpecPair specs_of(Arena& arena, const Json& fact);

/// Files with "-2.15" in their name were recorded from that release, the others under the seed's
/// rules.
PlanRules rules_of(std::string_view stem);

// Each compares one line.
void check_plan(Arena& arena, PlanRules rules, const Json& fact, CaseReport& report);
void check_flattened_plan(Arena& arena, PlanRules rules, const Json& fact, CaseReport& report);
void check_strided_plan(Arena& arena, PlanRules rules, const Json& fact, CaseReport& report);
void check_cost(Arena& arena, PlanRules rules, const Json& fact, CaseReport& report);
void check_cost_primitives(Arena& arena, PlanRules rules, const Json& fact, CaseReport& report);

// Checkers that run on simulated ranks.
std::unique_ptr<FactChecker> make_values_checker(std::string_view stem);
std::unique_ptr<FactChecker> make_backward_checker(std::string_view stem);

}  // namespace shardlab
