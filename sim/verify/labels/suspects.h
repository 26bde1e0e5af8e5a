// suspects.h - the step of a program at which a wrong value lost its meaning: its operands are
// pieces, terms or replicas of one device's, and its result is not. A step is only accused if the
// program is right with the result that it should have had. Private to the files that verify and
// judge.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "sim/verify/labels/accused.h"

namespace shardlab {

struct Suspicions : StepsOnPath {
  /// Runs the ranks with these results changed: whether the value is right then. Replaces `calls`
  /// by the steps of that run.
  std::function<bool(const std::vector<ChangedResult>&, std::vector<MatchedCall>& calls)> mends;
  bool explained = false;  ///< by the numbers of the value itself, if no step explains it
  /// One step whose results ranks exchange in another way; asked where no other one is enough.
  std::function<std::optional<Cause>()> exchanged = {};
};

/// The first step on the path with which the program is right if it is done right, and how it is
/// wrong, with its line; nothing if there is none.
std::optional<Cause> cause_on_path(Suspicions& suspicions);

/// Lines at which a rank takes one element of a dim that a mesh dim cuts into pieces of one
/// element: its own expert or stage, of which one device has all.
std::set<int> cut_element_lines(const std::vector<MatchedCall>& calls);

}  // namespace shardlab
