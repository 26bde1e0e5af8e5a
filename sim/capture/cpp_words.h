// cpp_words.h - the spelling of a graph's data in C++: constants, names, and calls of ops that have
// a function of their own. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/reduce_op.h"
#include "mesh/placement.h"
#include "trace/graph.h"

namespace shardlab {

struct OpFunction;
struct OpRow;

/// "\"a\\n\"": every text in one line.
std::string cpp_text(std::string_view text);
/// "{\"dp\", \"tp\"}".
std::string cpp_texts(const std::vector<std::string>& texts);
/// A literal that is no negative number: 67280421310721.
std::string cpp_unsigned(std::uint64_t value);
/// 2, 2.0, true; infinities, NaN and complex numbers as expressions. The type is that which a
/// Scalar of the same category is made of.
std::string cpp_number(const Scalar& value);
/// "DType::kF32".
std::string cpp_name(DType dtype);
std::string cpp_name(ReduceOp op);
/// An enumerator that is called as its text with a capital letter: ("Issue", "async").
std::string cpp_enumerator(std::string_view type, std::string_view text);
/// "Dims{8, 16}".
std::string cpp_dims(const Dims& dims);
/// "Placement::shard(0)".
///   fails  Unsupported: a mask partial, which only a lookup makes
std::string cpp_placement(const Placement& placement);
/// "{2, 2.0}", "{Placement::shard(0)}".
std::string cpp_numbers(const std::vector<Scalar>& values);
std::string cpp_placements(const Placements& placements);
/// The name, followed by "_" if it has another meaning in a program in C++.
std::string cpp_identifier(std::string name);

/// The function of api/tensor_ops.h that is one call of the op. Null: the op has none, or one with
/// arguments of its own.
const OpFunction* function_of(std::string_view op);

bool is_none(const GraphArgument& argument);
/// Whether a call of the op that leaves the argument out is given the same.
bool is_default(const GraphArgument& argument, const OpRow& row, std::size_t index);

}  // namespace shardlab
