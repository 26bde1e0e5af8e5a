// agreement.h - a computed value against a recorded one, by the tolerances of the facts' README.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "sim/recorded/check.h"
#include "tests/facts/value_case.h"

namespace shardlab {

/// Of a case whose recorded value is wrong in digits that matter, why it is; null for all others.
const char* differs_on_purpose(const std::string& id);

/// True where they part in what is NaN alone, or in the sign of infinities, and the op is one of
/// which the reference's are known to be wrong. `op`: as ValueCase has it, of an in-place or out=
/// case the functional one.
bool differs_by_limits(const std::string& op, const Tensor& got, const RecordedOutput& expected);

/// |got - expected| <= absolute + relative * |expected|.
struct Tolerance {
  double absolute = 0, relative = 0;
};
/// The reference's own.
Tolerance tolerance_of(DType dtype);
/// Of values that are held to another one, by dtype.
using Tolerances = std::map<DType, Tolerance>;

/// By OpInfo, with its variant.
using OpInfoTolerances = std::map<std::string, Tolerances>;
/// Those of the reference's own tests, from tolerances.json.gz beside a file of facts, or else
/// beside the project's own facts; none where there is no such file.
OpInfoTolerances read_tolerances(const std::string& fact_file);

/// Where two values part.
struct Disagreement {
  std::string where;  ///< "[3]" is an element, row-major; "" the whole
  std::string expected, got;
};
/// Element by element; shapes and dtypes are equal. Ten times the tolerance passes, as the README
/// allows; `needed` is raised to 10 where less does not do.
std::optional<Disagreement> disagreement(const Tensor& got, const RecordedOutput& expected,
                                         const Tolerances& tolerances, double& needed);
/// A result: what it is, its shape and dtype, then its elements if `values`.
std::optional<Disagreement> disagreement(const Argument& got, const RecordedOutput& expected,
                                         bool values, const Tolerances& tolerances, double& needed);

/// True where the op is one of which the reference rounds places to half precision before it looks
/// there, and `got` is what the same call in f64 gives, `exact`. `op`: as for differs_by_limits().
bool differs_by_places(const std::string& op, const Tensor& got, const Tensor& exact);
/// Whether the recorded value is rounded more than ours: wherever they part, ours is nearer to
/// `exact`, the same calls in f64, from which the recorded one is not far (`factor` times its
/// tolerance, or the tolerance of the largest element), or which it misses by overflow (NaN in half
/// precision). Of an f64 value there is no better witness: false.
bool is_nearer(const Tensor& got, const RecordedOutput& expected, const Tensor& exact,
               double factor = 30);
/// Says in how many lines that was so.
void note_nearer(std::int64_t lines, CheckSummary& summary);
/// Says in how many lines more than the tolerance was needed.
void note_loose(std::int64_t lines, CheckSummary& summary);

}  // namespace shardlab
