// collective_edits.h - edits of lines that have a collective: another op of a reduction, and sums
// in the backward of what is gathered.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sim/replay/recording_blame.h"

namespace shardlab {

/// How a collective on plain tensors reduces; none: it does not.
std::optional<ReduceOp> reduction_of(const RecordedEvent& event);
/// The result of an event as the one to look at: its line is to be changed.
BlamedValue blamed_line(const RecordedProgram& b, std::size_t event, std::int32_t number);
/// For each line of collectives that may reduce by the wrong op, all of its events with another
/// one: a sum is doubted where its own result is wrong.
std::vector<RecordingEdit> other_reductions(const RecordedProgram& b, std::size_t wrong);

/// For each line of collectives that reduce on the way to a wrong value, all of its events over
/// each other set of groups: "group=[0, 2]".
std::vector<RecordingEdit> other_groups(const RecordedProgram& b, const BlamedValue& wrong,
                                        const std::vector<RankGroups>& groups);

/// The backward of an autograd.Function that gathers: `gathered` is the value that the event
/// `gather` wrote.
struct BackwardEdit {
  RecordingEdit edit = {.text = ""};
  std::size_t gather = 0;
  std::int32_t gathered = -1;
};
/// Functions whose backward has no collective, though they gather: for each class an edit that adds
/// up the gradients which it takes.
std::vector<BackwardEdit> added_in_backward(const RecordedProgram& b);

/// Leaves out the collectives of a line, whose result is wrong and whose operand is A's value.
RecordingEdit without_collective(const RecordedProgram& b, const ComparedPoint& wrong);

/// The result of a gather to which no gradient comes back: a call has less gradients than in A, or
/// takes the rank's own part beside those of others. `names`: of B, from its first event on.
std::optional<BlamedValue> gradient_stop(const PointsOfA& a, const RecordedProgram& b,
                                         PointNames names);

}  // namespace shardlab
