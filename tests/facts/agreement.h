// agreement.h - a computed value against a recorded one, by the tolerances of the facts' README.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "tests/facts/check.h"
#include "tests/facts/value_case.h"

namespace shardlab {

/// The reason for a case whose recorded value is wrong in digits that matter; null for all others.
const char* differs_on_purpose(const std::string& id);

/// True when they differ only in NaN or in the sign of infinities, and the reference is known to be
/// wrong there for this op. `op`: as in ValueCase; for an in-place or out= case the functional op.
bool differs_by_limits(const std::string& op, const Tensor& got, const RecordedOutput& expected);

/// |got - expected| <= absolute + relative * |expected|.
struct Tolerance {
  double absolute = 0, relative = 0;
};
/// The reference's own.
Tolerance tolerance_of(DType dtype);
/// Tolerances by dtype, for values that are compared with others.
using Tolerances = std::map<DType, Tolerance>;

/// The reference's name of the op (OpInfo), with its variant.
using OpInfoTolerances = std::map<std::string, Tolerances>;
/// Tolerances of the reference's own tests, from tolerances.json.gz next to a file of facts, or
/// else next to the project's own facts; none if there is no such file.
OpInfoTolerances read_tolerances(const std::string& fact_file);

/// The place at which two values differ.
struct Disagreement {
  std::string where;  ///< "[3]" is an element, row-major; "" the whole
  std::string expected, got;
};
/// Element by element; shapes and dtypes are equal. Ten times the tolerance passes, as the README
/// allows; `needed` is raised to 10 where less does not do.
std::optional<Disagreement> disagreement(const Tensor& got, const RecordedOutput& expected,
                                         const Tolerances& tolerances, double& needed);
/// A result: its kind, its shape and dtype, then its elements if `values`.
std::optional<Disagreement> disagreement(const Argument& got, const RecordedOutput& expected,
                                         bool values, const Tolerances& tolerances, double& needed);

/// True when the reference rounds places to half precision before it looks there for this op, and
/// `got` is the result of the same call in f64, `exact`. `op`: as for differs_by_limits().
bool differs_by_places(const std::string& op, const Tensor& got, const Tensor& exact);
/// True when the recorded value is rounded more than ours: wherever they differ, ours is nearer to
/// `exact`, the same calls in f64, and the recorded one is not far from `exact` (`factor` times its
/// tolerance, or the tolerance of the largest element) or misses it by overflow (NaN in half
/// precision). For an f64 value there is no better witness: false.
bool is_nearer(const Tensor& got, const RecordedOutput& expected, const Tensor& exact,
               double factor = 30);
/// Reports the number of lines with such differences.
void note_nearer(std::int64_t lines, CheckSummary& summary);
/// Reports the number of lines that needed more than the tolerance.
void note_loose(std::int64_t lines, CheckSummary& summary);

}  // namespace shardlab
