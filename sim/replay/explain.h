// explain.h - a value that ranks hold in parts, against the whole: parts of it, terms of a sum
// that is it, a multiple, or none of these.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/replay/points.h"
#include "sim/replay/rank_groups.h"

namespace shardlab {

enum class ValueHeld : std::uint8_t { kRight, kTerms, kScaled, kUnknown, kWrong };

struct Explained {
  ValueHeld held = ValueHeld::kWrong;
  double off = 0;  ///< the largest error, as a part of the largest element
  /// kScaled; of terms: 1 / their number if the whole is their average; kWrong: factor_of_sum()
  double factor = 1;
  RankGroups groups = {};  ///< over which terms are added
  bool largest = false;    ///< of terms: the whole is not their sum, but the largest of them
};

constexpr double kSameFactor = 1e-3;  ///< as a part of a factor: two of them are one
bool is_same_factor(double factor, double other);

/// The error, as a part of the largest element, that rounding in a call of this dtype explains.
double rounding_of(DType dtype);
/// The same of a value, in its units.
double rounding_allowed(const PointPart& whole);
/// All are one value.
bool are_equal(const std::vector<PointPart>& parts);
/// Those of each group, which has several.
bool are_equal_in(const RankGroups& groups, const std::vector<PointPart>& all, const Ranks& ranks);

/// `parts` are those of `ranks`; elements of `whole` may be off by `allowed`. `open`: where it is
/// NaN, by anything.
Explained explain(const PointPart& whole, double allowed, const std::vector<PointPart>& parts,
                  const Ranks& ranks, const std::vector<RankGroups>& groups, bool open = false);

/// Parts that are each off by up to `error` as terms of a sum or average that is much nearer to
/// `whole`; none: noise explains them as well.
std::optional<Explained> nearer_terms(const PointPart& whole, double error,
                                      const std::vector<PointPart>& parts, const Ranks& ranks,
                                      const std::vector<RankGroups>& groups);

/// How many times the whole the sum of terms over a group is, as of gradients of a loss that has a
/// factor; 1: there is none, or the whole has too few elements to tell.
double factor_of_sum(const PointPart& whole, double allowed, const std::vector<PointPart>& parts,
                     const Ranks& ranks, const std::vector<RankGroups>& groups);

/// The parts of a group, of those of `ranks`, added up, or the largest of them; none: a rank has
/// none, or they differ in shape.
std::optional<PointPart> reduced_over(const Ranks& group, const std::vector<PointPart>& parts,
                                      const Ranks& ranks, bool largest = false);
/// How many times a piece of `whole` each part is; empty: some part is no multiple of one.
std::vector<double> factors_of_parts(const PointPart& whole, double allowed,
                                     const std::vector<PointPart>& parts);
/// The index of an element of `whole` that is in no part; none: the parts make the whole.
std::optional<Dims> missing_element(const PointPart& whole, double allowed,
                                    const std::vector<PointPart>& parts);

/// Whether ranks hold the elements of the whole, each rank or all of them together, in another
/// order.
bool is_rearranged(const std::vector<PointPart>& parts, const PointPart& whole);

}  // namespace shardlab
