// ops_call.h - the call of a sample with tensors in place, and what comes out of it.
#pragma once

#include <vector>

#include "schema/op_row.h"
#include "tests/property/ops_samples.h"

namespace shardlab::test {

/// The sample's arguments with `inputs` in place of "$0", "$1", ...
Arguments filled_in(const Arguments& args, const std::vector<DTensor>& inputs);

/// All tensors, those in lists too.
std::vector<DTensor> tensors_of(const Results& results);

/// A gradient of its own, that of the op it is a variant of, or the gradients of its parts.
bool has_gradient(const OpRow& row);

}  // namespace shardlab::test
