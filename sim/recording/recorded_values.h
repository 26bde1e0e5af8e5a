// recorded_values.h - values, their elements and fingerprints as files of recordings write them
// (sim/record_torch/format.md).
#pragma once

#include <string>
#include <vector>

#include "sim/files/json.h"
#include "sim/recording/recorded_program.h"
#include "trace/graph_meshes.h"

namespace shardlab {

/// A file of a recording contradicts itself; readers add event and place.
///   fails  Value
[[noreturn]] void refuse_recorded(const std::string& what);

/// {"ranks": [...]}: of each rank its own.
bool is_of_ranks(const Json& value);
/// Fails with Value where it has not one entry of each rank.
void require_ranks(const Json& value, std::size_t ranks);
/// The rank's own, of a value that is_of_ranks().
const Json& of_rank(const Json& value, std::size_t rank);
/// A text or a count of one process, as a line or a module: the first that a rank has.
Json of_first_rank(const Json& value);

/// A list of numbers as sizes.
Dims dims_of(const Json& list);
/// Fails with Value for a text that is not a dtype.
DType dtype_of(const Json& name);
/// A list of placement texts. Fails with Value when one is malformed.
Placements placements_of(const Json& texts);

/// The places of elements, by the keys raw, raw_ranks and fill: none, one, or one of each rank.
///   fails  Value: outside of the `held` bytes that the file has, or damaged
std::vector<RecordedElements> elements_of(const Json& value, DType dtype, std::size_t held,
                                          std::size_t ranks);

inline constexpr std::int64_t kMostValueBytes = std::int64_t{1} << 40;
/// Its shape is one, of at most so many bytes.
bool fits_in_memory(const TensorMeta& meta);

/// The shape, strides and dtype of a value; of a plain one, as a rank has it.
///   fails  Value: no shape, or one of over 2^40 bytes
TensorMeta recorded_meta(const Json& value, std::size_t rank = 0);

/// A value of a program whose meshes, ranks and elements are known. Its number is left to the
/// caller.
///   fails  Value: damaged, or contradicts the program
EventValue recorded_value(const Json& value, const RecordedProgram& program);

}  // namespace shardlab
