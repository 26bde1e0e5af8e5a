// read_samples.h - sample calls for each op and kind of arguments, and the table that they are in,
// as text: its form is in the first lines of samples.txt.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/proof/sample.h"

namespace shardlab {

/// The samples of a table, in its order; `file` is named in errors.
///   fails  Value: FILE:LINE, and what was expected there
std::vector<OpSample> read_samples(std::string_view text, const std::string& file);

/// The samples of the shipped table (samples.txt) that are not fixed. The first call reads it.
///   fails  Runtime: the table is not where the program was built or installed. Value: a wrong line
std::span<const OpSample> op_samples();
/// op_samples(), then the fixed ones of the table, and samples_of_several_calls().
std::span<const OpSample> all_samples();
std::vector<OpSample> samples_of_several_calls();

}  // namespace shardlab
