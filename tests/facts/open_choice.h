// open_choice.h - ops with several right results: one of several equal elements, the order of
// eigenvalues, the signs of vectors. They are compared with their definition.
#pragma once

#include "schema/calls.h"
#include "tests/facts/agreement.h"

namespace shardlab {

struct OpRow;

/// Whether output `output` of the op is one of several right ones.
bool is_open(const OpRow& row, std::size_t output);
/// The fault in the results of such an op, by its definition; "" where there is none. On the
/// running rank, with plain tensors.
std::string wrong_choice(const OpRow& row, const Arguments& args, const Results& results);
/// Whether output `output` holds two vectors or more of which only the plane is given, so that
/// their elements may be others: those of full matrices beyond the singular values.
bool leaves_basis(const OpRow& row, const Results& results, std::size_t output);
/// The same elements in another order, with other signs or phases; integers are taken as they are.
bool same_magnitudes(const Tensor& got, const RecordedOutput& expected);

}  // namespace shardlab
