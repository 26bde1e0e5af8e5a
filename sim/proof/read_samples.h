// read_samples.h - the table of samples as text: its form is in the first lines of samples.txt.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/proof/sample.h"

namespace shardlab {

/// The samples of a table, in its order; `file` is named in errors.
///   fails  Value: FILE:LINE, and what was expected there
std::vector<OpSample> read_samples(std::string_view text, const std::string& file);

}  // namespace shardlab
