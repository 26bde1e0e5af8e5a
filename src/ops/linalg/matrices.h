// matrices.h - common parts of the families of linear algebra: shapes, rules and steps of gradients
// of matrices in the last two dims, of which the dims in front make a batch.
#pragma once

#include <initializer_list>

#include "schema/calls.h"
#include "schema/meta_args.h"
#include "schema/sharding_rule.h"

namespace shardlab::linalg {

// Shapes; a misfit fails with Value.

/// An operand of at least two dims, of floats or complex numbers; and one that is square.
const TensorMeta& matrices(const MetaArgs& args, std::size_t index);
const TensorMeta& squares(const MetaArgs& args, std::size_t index);
inline std::int64_t rows_of(const TensorMeta& meta) { return meta.shape[meta.shape.size() - 2]; }
inline std::int64_t columns_of(const TensorMeta& meta) { return meta.shape.back(); }
/// All dims but the last `count`, and others behind them.
Dims front_of(const TensorMeta& meta, std::size_t count = 2);
Dims with(Dims front, std::initializer_list<std::int64_t> sizes);
OutputMeta fresh(Dims shape, DType dtype);
/// Matrices whose columns are in one piece, as LAPACK writes them.
OutputMeta by_columns(Dims front, std::int64_t rows, std::int64_t columns, DType dtype);
OutputMeta square_by_columns(const TensorMeta& a);
/// The fronts of both, broadcast.
Dims common_front(const MetaArgs& args, const TensorMeta& a, const TensorMeta& b,
                  std::size_t dims_of_b = 2);

// Rules

/// Dims in front of the matrices, the same in all operands and results.
std::vector<RuleRow> batch_rule(const RuleContext& context);
/// The same of several operands; `behind`: number of dims of each that are not batch dims. Batches
/// that stretch over another operand's are not cut: a dim of one would be another dim of the other.
std::vector<RuleRow> common_batch_rows(const RuleContext& context,
                                       std::initializer_list<std::size_t> behind);
/// The rule of packed factors, a number for each step, and a third operand that the first result
/// is linear in.
std::vector<RuleRow> packed_rule(const RuleContext& context);
/// Adds: the first result is linear in operand `linear`, of which sums pass.
void add_linear_row(std::vector<RuleRow>& rows, const RuleContext& context, std::size_t linear);

// Steps of gradients

/// The transpose, conjugated.
DTensor adjoint(Calls& calls, const DTensor& x);
DTensor product(Calls& calls, const DTensor& a, const DTensor& b);
/// The diagonals as vectors, and vectors as diagonals.
DTensor diagonal(Calls& calls, const DTensor& x);
DTensor on_diagonal(Calls& calls, const DTensor& x);
/// One triangle of a matrix, from the diagonal that is `offset` above the main one.
DTensor lower(Calls& calls, const DTensor& x, std::int64_t offset = 0);
DTensor upper(Calls& calls, const DTensor& x, std::int64_t offset = 0);
/// With zeros behind, up to so many columns.
DTensor with_columns(Calls& calls, const DTensor& x, std::int64_t columns);
/// Gradients of packed reflections and their factors, from that of the square product of all
/// (reflections.cpp).
std::vector<DTensor> packed_gradients(Calls& calls, const DTensor& packed, const DTensor& tau,
                                      const DTensor& g);

}  // namespace shardlab::linalg
