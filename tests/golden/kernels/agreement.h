// agreement.h - a computed value against a recorded one, by the tolerances of the facts' README.
#pragma once

#include <string>

#include "tests/golden/kernels/value_cases.h"

namespace shardlab {

/// True for cases whose recorded value is wrong in digits that matter.
bool differs_on_purpose(const std::string& id);
/// Outputs of which several values are right: places of equal elements, signs of singular vectors.
bool is_undetermined(const std::string& op, std::size_t output);
/// The tolerance factor that is needed: 1, 10, or 0 for a mismatch. `where` tells the element.
double agreement(const Tensor& got, const RecordedOutput& expected, std::string& where);

}  // namespace shardlab
