// sample_forms.h - a sample's call in other forms: arguments that its schema allows in another
// form, or to be left out, and operands of other ranks. Pure.
#pragma once

#include <string>
#include <vector>

#include "sim/proof/read_samples.h"

namespace shardlab {

struct OpRow;

/// Forms of one call, at most `most`, those that say most about a kernel's arguments first: lists
/// of one number, dims from the end, optional tensors and numbers left out, out= of another shape,
/// batches of more and fewer dims, of size 1 and 0; then other flags and numbers. Some have no
/// meaning: one device may refuse them. Without the call itself. A sample that is several calls or
/// has given elements has none.
std::vector<OpSample> forms_of(const OpSample& sample, const OpRow& row, std::size_t most);
/// Forms of all samples of one op, none twice, at most `most`; the first samples' first.
std::vector<OpSample> forms_of(const std::vector<const OpSample*>& samples, const OpRow& row,
                               std::size_t most);

/// "aten::sum.dim_IntList($0, [-1], True) of real[7, 5]": the same for the same call.
std::string form_text(const OpSample& sample, const OpRow& row);

}  // namespace shardlab
