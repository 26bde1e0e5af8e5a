// verify.h - every recorded value of all ranks against the single-device run: in the dtypes of the
// program, and, if that leaves a doubt, in f64 on both sides.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "sim/language/run/program_traits.h"
#include "sim/run/recording.h"
#include "sim/scenario/cause.h"
#include "sim/scenario/scenario.h"
#include "sim/verify/compare.h"
#include "sim/verify/kept_value.h"

namespace shardlab {

/// One value of the program and its verdict.
struct ValueReport {
  std::string name;
  std::int64_t occurrence = 0;
  bool at_end = false;  ///< the value of the name when the program ends, after writes in place
  Where where;
  std::string type;                   ///< "f32[8@dp, 16]" on the first rank
  const DTensorSpec* spec = nullptr;  ///< of `type`; null: it has no placements
  std::size_t event = 0;         ///< earlier events in the reporting rank's trace; 0: not its own
  bool in_floats = true;         ///< neither integers nor bools
  bool replicas_differ = false;  ///< ranks that must hold the same do not
  bool verified = false;
  std::string not_verified;  ///< the reason otherwise
  Comparison comparison;
  std::string holders;      ///< of the wrong element: "ranks 0,4 at [3, 1]"
  std::int64_t passes = 0;  ///< of a gradient: the number of backward passes in it
  Cause cause;              ///< of the first wrong values: the mistake that fits
  int line = 0;             ///< of `where`
  std::string key() const { return name + "#" + (at_end ? "end" : std::to_string(occurrence)); }
  /// One; or one per rank if ranks hold their own, one per sub-mesh for a slice of the mesh.
  std::vector<KeptValue> kept;
};

/// Whether it is compared, and off by more than rounding explains.
inline bool is_wrong(const ValueReport& value) {
  return value.verified && value.comparison.agreement == Agreement::kWrong;
}

/// The line that matters of a value's cause.
inline int line_of_cause(const ValueReport& value) {
  return value.cause.line > 0 ? value.cause.line : value.line;
}

/// The number of compared values, of wrong ones among these, and of values not compared.
struct ValueCounts {
  std::int64_t verified = 0, wrong = 0, not_verified = 0;
};
ValueCounts count_values(const std::vector<ValueReport>& reports);

/// A single-device run of the program. One recording, or, for programs that read their rank, one
/// per rank number; ranks beyond the last are not compared.
struct OneDeviceValues {
  std::vector<const Recording*> single;     ///< in the program's dtypes
  std::vector<const Recording*> reference;  ///< likewise, in f64; empty: not run yet
  /// False if a run failed: its values so far can confirm a value, but not contradict it.
  bool complete = true;
  /// It filled a tensor to which the text gives the shape that several ranks make: values that
  /// follow from a collective can be confirmed, but not contradicted.
  bool other_shape = false;
  /// The program sees a world of one rank, which fits collectives that return their inputs.
  bool one_rank = false;
  double largest = 0;  ///< finite number of the runs in f64, of programs with values in f64
};

/// The program of [reference]. The last value of each name in the program is compared with the last
/// value of the same name here; other values are then not compared.
struct ReferenceValues {
  const Recording* single = nullptr;     ///< in the program's dtypes; null: there is no [reference]
  const Recording* reference = nullptr;  ///< in f64; null: not run yet
  double largest = 0;                    ///< finite number of that run, as of OneDeviceValues
};

/// The largest finite number of a recording that has a value in f64; of others 0.
double largest_in_f64(const Recording& single, const Recording& reference);

/// All that verification reads. Recordings outlive it.
struct VerifyInputs {
  std::vector<const Recording*> ranks;         ///< by global rank
  std::vector<const Recording*> ranks_in_f64;  ///< likewise, the same program in f64; may be empty
  std::size_t reporting_rank = 0;              ///< whose events are counted
  /// The possible single-device runs: a value is right when it agrees with one of them. None:
  /// nothing is verified, values are only kept and replicas compared.
  std::vector<OneDeviceValues> one_device;
  /// For a program that reads its rank: the number of ranks, from 0 on, with a single-device run.
  std::int64_t reported_ranks = std::numeric_limits<std::int64_t>::max();
  ReferenceValues given;
  std::string nothing = "not asked for";  ///< why a value that none of them has is not verified
  const ProgramTraits* traits = nullptr;  ///< of the program
  const MeshLayout* mesh = nullptr;       ///< of all ranks; null: no value is labelled
  std::vector<std::pair<DType, double>> tolerance;
  std::int64_t keep = 0;  ///< elements of each value to keep; 0: no values
  /// Limit on a compared value; a view can have more elements than there is memory for.
  std::int64_t most_elements = std::numeric_limits<std::int64_t>::max();
};

/// The value that [reference] gives a name at the end; null if it gives none: an input that it only
/// reads is none of its results.
const RecordedValue* given_value(const Recording& reference, const std::string& name);

/// Adds a report for each recorded value that has none yet, with the reason why its elements are
/// not known.
void list_values(const Recording& recording, const std::string& reason,
                 std::vector<ValueReport>& reports);

/// In the order of the first rank that recorded a value; values that only some ranks have come
/// last. The final value of a name is left out if nothing changed it. Without single-device runs in
/// f64, floats are compared with those in the program's dtypes: within 16 roundings of them a value
/// is within the envelope, whatever the error of the single-device run is.
std::vector<ValueReport> verify_values(const VerifyInputs& inputs);

/// Judges the values once more that are in doubt.
void verify_again(const VerifyInputs& inputs, std::vector<ValueReport>& reports);

/// True when a value is not right in the program's dtypes, or only by the user's tolerance: runs in
/// f64 decide.
bool in_doubt(const std::vector<ValueReport>& reports);

}  // namespace shardlab
