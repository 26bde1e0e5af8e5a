// evidence.h - brings together what is known of a wrong value, for causes.h. Private to the files
// that verify.
#pragma once

#include <string>

#include "sim/scenario/scenario.h"
#include "sim/verify/verify.h"

namespace shardlab {

/// Why a wrong value may be wrong, in one sentence; empty for values that are not wrong or whose
/// numbers are not known. `layout` is that of the whole mesh.
std::string explain_wrong(const VerifyInputs& inputs, const ValueReport& report,
                          const Scenario& scenario, const MeshLayout& layout);

}  // namespace shardlab
