// evidence.h - collects the known facts about a wrong value, for causes.h. Private to the files
// that verify.
#pragma once

#include "sim/scenario/scenario.h"
#include "sim/verify/verify.h"

namespace shardlab {

/// The mistake that fits the numbers of a value: empty if none does, or if they are not known.
Cause cause_by_numbers(const VerifyInputs& inputs, const ValueReport& report,
                       const Scenario& scenario);
/// For lack of a better cause, as last_resort().
Cause last_cause(const VerifyInputs& inputs, const ValueReport& report, const Scenario& scenario);
/// The last line, up to one, at which a statement gives the name a value; 0: none does.
int line_bound(const DefUse& flow, std::string_view name, int last);
/// For lack of one: a call on the way that the run has warned of. May be empty.
Cause cause_by_text(const DefUse& flow, const ValueReport& report,
                    const std::vector<std::string>& warnings);

}  // namespace shardlab
