// read_samples.h - sample calls for each op and kind of arguments, and the table that they are in,
// as text: its form is in the first lines of samples.txt.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/run/reference_calls.h"

namespace shardlab {

// One call of an op, small and uneven: placed in every way, or at random, and compared
// with the results of one device.

/// The contents of an input.
enum class Fill : std::uint8_t {
  kReal,   ///< (-2, 2)
  kUnit,   ///< (0.1, 0.9)
  kIndex,  ///< integers in [0, limit)
  kCount,  ///< integers in [1, limit]
  kBool,
  kGiven,  ///< given by the input
};

/// An input whose elements are given.
struct GivenElements {
  DType dtype = DType::kF32;
  bool placed = true;  ///< false: a constant, which every rank has whole
  bool tame = true;    ///< a few times its elements are still numbers
  /// On the running rank, in reference precision or as it is.
  std::function<Tensor(Precision precision)> make;
};

struct SampleInput {
  Dims shape;
  Fill fill = Fill::kReal;
  std::int64_t limit = 0;
  std::shared_ptr<const GivenElements> given = nullptr;  ///< of Fill::kGiven
};

/// The surroundings of a sample that is several calls.
struct SampleRun {
  const std::vector<DTensor>& inputs;
  const MeshLayout* layout = nullptr;  ///< null: one device
  Precision precision = Precision::kDeclared;
  /// Set to the refusal of a call that ran once its operands were made replicas, as the refusal
  /// asks.
  std::string* moved = nullptr;
};

/// Arguments in schema order, missing ones take the schema's defaults; "$0" is the first input.
struct OpSample {
  std::string op;
  std::vector<SampleInput> inputs;
  Arguments args;
  /// Instead of one call of `op`: several, which give these values, and write nothing into the
  /// inputs. `op` is then their name.
  std::function<std::vector<DTensor>(const SampleRun& run)> calls = nullptr;
  /// True when the values that must agree bit for bit are known: not if calls write through other
  /// handles.
  bool marked = true;
  /// The call cannot be made with any dtype, leaf or placement: into given tensors, of numbers
  /// about a tensor, with given elements.
  bool fixed = false;
};

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
