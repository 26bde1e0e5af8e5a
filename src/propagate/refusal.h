// refusal.h - decisions in words: the reasons why a call has no candidate, and for a choice.
#pragma once

#include "propagate/decision_record.h"
#include "propagate/elements.h"

namespace shardlab {

/// Unsupported: the op has no sharding rule (K-33).
[[noreturn]] void refuse_without_rule(const OpSchema& schema);
/// Runtime: no candidate is left, or an in-place op would have to move its target. Names op,
/// mesh, placements, the reasons, and what to do.
[[noreturn]] void refuse_call(const Element& element, Expansion& expansion, const Choice& choice);
[[noreturn]] void refuse_inplace_move(const Element& element);
/// The same for a rule that lists its candidates.
[[noreturn]] void refuse_without_candidates(const Element& element);

/// Fills strategies, selected, rejected and choice of a record whose sharding is known.
void explain_choice(const OpSchema& schema, const PlanOptions& options, DecisionRecord& record);

}  // namespace shardlab
