// taken_values.h - the values that the first wrong call takes, where they have no names of A's: one
// of them may be a term, or have too much of a bias.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/replay/points.h"
#include "sim/replay/recording_blame.h"

namespace shardlab {

/// If the first wrong value is a call's, and one that the call takes is not A's, that one comes
/// first; of a gradient after the step, a number that its last line takes. `of_a` and `of_b` have
/// not been asked yet, here and below.
void look_into(RecordingBlame& blame, const RecordedProgram& a, const RecordedProgram& b,
               PointNames of_a, PointNames of_b, const std::vector<RankGroups>& groups);

/// A sum of what the call takes that takes a term as the whole: there it has been added up, as a
/// norm is on each rank. Without its text.
std::optional<RecordingEdit> sum_of_taken(const BlamedValue& first, const RecordedProgram& a,
                                          const RecordedProgram& b, PointNames of_a,
                                          PointNames of_b, const std::vector<RankGroups>& groups);

/// A bias among the terms of a sum counts once a rank: it is looked for in the difference, where
/// the call with this key takes or gives the value.
std::optional<RecordingEdit> less_of(const BlamedValue& first, const std::string& key,
                                     const RecordedProgram& a, const RecordedProgram& b,
                                     PointNames of_a, PointNames of_b,
                                     const std::vector<RankGroups>& groups);

}  // namespace shardlab
