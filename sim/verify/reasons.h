// reasons.h - the sentence that people read behind the outcome of a value. Private to the files
// that verify and judge.
#pragma once

#include "sim/verify/verify.h"

namespace shardlab {

/// Fills in the reasons of all values whose rows are known.
void add_reasons(const VerifyInputs& inputs, std::vector<ValueReport>& reports);

}  // namespace shardlab
