// difference_text.h - how a value of a rank differs from the whole one, in words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/replay/explain.h"

namespace shardlab {

std::string number_text(double value);
/// "a term on each rank: their sum over ranks 0, 1 is A's value", "2 times A's value".
std::string text_of_cause(const Explained& all);
/// "; their sum is 2 times A's value", of wrong parts; empty: it is no multiple.
std::string text_of_factor(const Explained& all);

bool has_one_size(const PointPart& part, const PointPart& whole);
/// Elements of two parts of one size that are further apart than rounding.
std::size_t differing(const PointPart& part, const PointPart& whole);
/// "2 of 8 elements differ; at [1, 0] it is 3, and A has 2", with the one that differs most.
std::string elements_text(const PointPart& part, const PointPart& whole);
/// "; its pieces are 1, 2 times A's: a factor of each rank's own"; empty: they are no multiples.
/// `what`: "its pieces"; elements of `a` may be off by `allowed`.
std::string factors_text(const std::vector<PointPart>& parts, const PointPart& a,
                         std::string_view what, double allowed);

/// "; its changes are 1, 2 times A's: ...", "; its change is 2 times A's", "; rank 1 has it as it
/// was before the step"; empty: none is true. Parts of these ranks after and before a step, and the
/// whole ones.
std::string changes_text(const std::vector<PointPart>& ends, const std::vector<PointPart>& begins,
                         const std::vector<std::size_t>& ranks, const PointPart& end,
                         const PointPart& begin);

/// "; rank 1 has A's", of these ranks; empty: all have it, or none.
std::string right_ranks_text(const std::vector<PointPart>& parts,
                             const std::vector<std::size_t>& ranks, const PointPart& whole);
/// "it is one value on ranks 0, 4, another on ranks 1, 5"; empty: replicas are equal, or all of
/// them are their own.
std::string replicas_text(const std::vector<PointPart>& parts,
                          const std::vector<std::size_t>& ranks, const PointPart& whole);
/// "equal on all ranks before the step, and not behind it: ..."; empty: they are as equal as
/// before.
std::string parting_text(const std::vector<PointPart>& ends, const std::vector<PointPart>& begins);

}  // namespace shardlab
