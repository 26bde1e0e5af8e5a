// evidence.h - collects the known facts about a wrong value, for causes.h. Private to the files
// that verify.
#pragma once

#include <optional>

#include "sim/scenario/scenario.h"
#include "sim/verify/labels/lost_meaning.h"
#include "sim/verify/verify.h"

namespace shardlab {

/// The reason why a wrong value may be wrong; empty for values that are not wrong or whose numbers
/// are not known. `layout` is that of the whole mesh. `lost`: the call at which the meaning of
/// plain values was lost, if it is known.
Cause explain_wrong(const VerifyInputs& inputs, const ValueReport& report, const Scenario& scenario,
                    const MeshLayout& layout, const std::optional<Cause>& lost);

}  // namespace shardlab
