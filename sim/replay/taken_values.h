// taken_values.h - the values that the first wrong call takes, where they have no names of A's: one
// of them may be a term, or have too much of a bias.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/replay/points.h"
#include "sim/replay/recording_blame.h"

namespace shardlab {

/// Two programs, whose names of points are copied where they are asked, and the groups of B.
struct ComparedPrograms {
  const RecordedProgram &a, &b;
  const PointNames &of_a, &of_b;
  const std::vector<RankGroups>& groups;
};

/// If the first wrong value is a call's, and one that the call takes is not A's, that one comes
/// first; of a gradient after the step, a number that its last line takes.
void look_into(RecordingBlame& blame, const ComparedPrograms& both);

/// A sum of what the call takes that takes a term as the whole: there it has been added up, as a
/// norm is on each rank. Without its text.
std::optional<RecordingEdit> sum_of_taken(const BlamedValue& first, const ComparedPrograms& both);

/// A bias among the terms of a sum counts once a rank: it is looked for in the difference, where
/// the call with this key takes or gives the value.
std::optional<RecordingEdit> less_of(const BlamedValue& first, const std::string& key,
                                     const ComparedPrograms& both);

}  // namespace shardlab
