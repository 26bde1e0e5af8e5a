// verify.h - every recorded value of all ranks against the single-device run: in the dtypes of the
// program, and, if that leaves a doubt, in f64 on both sides; then its outcome.
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "sim/language/run/def_use.h"
#include "sim/run/recording.h"
#include "sim/scenario/cause.h"
#include "sim/scenario/scenario.h"
#include "sim/verify/compare.h"
#include "sim/verify/kept_value.h"
#include "sim/verify/labels/label.h"
#include "sim/verify/outcome.h"

namespace shardlab {

class EarlyJudge;

/// The parts of a verdict that comparing gives.
struct JudgedValue {
  bool replicas_differ = false;  ///< ranks that must hold the same do not
  bool row_per_rank = false;     ///< one device has one row, and ranks one of each rank
  ValueFacts facts;
  /// The sentence behind the outcome: what ranks hold, the reason why it is not compared, or
  /// how it differs. May be empty.
  std::string reason;
  std::optional<Label> label;  ///< of what ranks hold of a plain value, if it is not R
  Comparison comparison;       ///< with the value of one device; none of a value that it has not
  std::string holders;         ///< of the wrong element: "ranks 0,4 at [3, 1]"
  /// One; or one per rank if ranks hold their own, one per sub-mesh for a slice of the mesh.
  std::vector<KeptValue> kept;
};

/// One value of the program and its verdict.
struct ValueReport : JudgedValue {
  std::string name;
  std::int64_t occurrence = 0;
  bool at_end = false;  ///< the value of the name when the program ends, after writes in place
  Where where;
  std::string type;                   ///< "f32[8@dp, 16]" on the first rank
  const DTensorSpec* spec = nullptr;  ///< of `type`; null: it has no placements
  std::size_t event = 0;  ///< earlier events in the reporting rank's trace; 0: not its own
  bool in_floats = true;  ///< neither integers nor bools
  bool number = false;    ///< of the program's own, not a tensor
  bool read = false;      ///< by the program, under no name
  bool last = true;       ///< the last that the name gets
  bool told = false;      ///< its reason says all: no cause is looked for
  const OutcomeRow* row = nullptr;                   ///< of the table; never null once it is judged
  std::shared_ptr<const SpmdClaim> claim = nullptr;  ///< the program's, of a plain value
  std::int64_t passes = 0;  ///< of a gradient: the number of backward passes in it
  Cause cause;              ///< of the first wrong values: the mistake that fits
  int line = 0;             ///< of `where`
  std::string key() const { return name + "#" + (at_end ? "end" : std::to_string(occurrence)); }
  Outcome outcome() const { return row->outcome; }
};

/// The mesh whose ranks hold the value: its own, or `all`.
inline const MeshLayout* mesh_of(const ValueReport& value, const MeshLayout* all) {
  return value.spec != nullptr ? value.spec->layout() : value.claim ? value.claim->mesh : all;
}
inline bool is_wrong(const ValueReport& value) { return value.outcome() == Outcome::kWrong; }
inline bool is_verified(const ValueReport& value) { return value.outcome() == Outcome::kVerified; }
/// Whether somebody has to look at it: the ranks do not hold what one device has.
inline bool is_off(const ValueReport& value) {
  return is_wrong(value) || value.outcome() == Outcome::kDiffers;
}

/// The line that matters of a value's cause.
inline int line_of_cause(const ValueReport& value) {
  return value.cause.line > 0 ? value.cause.line : value.line;
}

/// The number of values of each outcome, and of those that fail under --strict without being wrong.
struct ValueCounts {
  std::array<std::int64_t, kOutcomes> of{};
  std::int64_t not_verified = 0;
  std::int64_t operator[](Outcome outcome) const { return of[static_cast<std::size_t>(outcome)]; }
};
ValueCounts count_values(const std::vector<ValueReport>& reports);

/// A single-device run of the program. One recording, or, for programs that read their rank, one
/// per rank number; ranks beyond the last are not compared.
struct OneDeviceValues {
  std::vector<const Recording*> single;     ///< in the program's dtypes
  std::vector<const Recording*> reference;  ///< likewise, in f64; empty: not run yet
  /// Empty if it ran to its end. Else its values so far can confirm a value, not contradict it.
  std::string failure;
  /// It filled a tensor to which the text gives the shape that several ranks make: values that
  /// follow from a collective can be confirmed, but not contradicted.
  bool other_shape = false;
  double largest = 0;  ///< finite number of the runs in f64, of programs with values in f64
  /// It has followed the ranks in what a moved value shares with its source.
  bool knows_sharing = true;
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
  /// The program leaves the distributed world: then `one_device` is the world of one.
  bool leaves = false;
  /// Not given: nothing is verified, values are only kept and replicas compared.
  std::optional<OneDeviceValues> one_device;
  ReferenceValues given;
  std::string nothing = "not asked for";  ///< why a value that it does not have is not compared
  const DefUse* flow = nullptr;           ///< of the program; null: it has no text
  const EarlyJudge* early = nullptr;      ///< what it has judged is let go; null: nothing is
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
/// last. The facts about agreement are filled in, the others are not. Without single-device runs in
/// f64, floats are compared with those in the program's dtypes: within 16 roundings of them a value
/// is within the envelope, whatever the error of the single-device run is.
std::vector<ValueReport> verify_values(const VerifyInputs& inputs);

/// Whether a value agrees in other runs: in f64, or in the program's dtypes if f64 was not run.
bool agrees_in(const VerifyInputs& inputs, ValueReport report);

/// Judges the values once more that are in doubt.
void verify_again(const VerifyInputs& inputs, std::vector<ValueReport>& reports);

/// True when a value is not right in the program's dtypes, or only by the user's tolerance: runs in
/// f64 decide.
bool in_doubt(const std::vector<ValueReport>& reports);
bool in_doubt(const ValueReport& report);

/// The value of a name on one rank, as a report counts it: at its last write. Null if it has none.
const RecordedValue* value_of(const Recording& recording, const ValueReport& report);
/// The same in numbers, also for a number of the program.
std::optional<GlobalValue> numbers_of(const Recording& recording, const ValueReport& report);
/// The ranks' parts, by mesh index, and one device's value: of runs in f64 if there
/// are any. Nothing where a rank has none.
std::optional<std::vector<GlobalValue>> held_by_ranks(const VerifyInputs& inputs,
                                                      const ValueReport& report);
std::optional<GlobalValue> expected_of(const VerifyInputs& inputs, const ValueReport& report);

}  // namespace shardlab
