// taken_values.h - the values that the first wrong call takes, where they have no names of A's: one
// of them may be a term, or have too much of a bias.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/replay/recording_blame.h"

namespace shardlab {

/// If the first wrong value is a call's, and one that the call takes is not A's, that one comes
/// first.
void look_into(RecordingBlame& blame, const RecordedProgram& a, const RecordedProgram& b,
               const std::vector<RankGroups>& groups);

/// A bias among the terms of a sum counts once a rank: it is looked for in the difference, where
/// the call with this key takes or gives the value.
std::optional<RecordingEdit> less_of(const BlamedValue& first, const std::string& key,
                                     const RecordedProgram& a, const RecordedProgram& b,
                                     const std::vector<RankGroups>& groups);

}  // namespace shardlab
