// recording_blame.h - the values of a recording that are wrong against another, and edits that mend
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/replay/explain.h"
#include "sim/replay/replay_report.h"

namespace shardlab {

/// Events and values, as in ComparedPoint.
using EditPlaces = std::vector<std::pair<std::size_t, std::int32_t>>;

/// A change of values, each after an event, with which a replay goes on.
struct RecordingEdit {
  EditPlaces places;
  double factor = 1;
  std::optional<RankGroups> reduced;  ///< over these groups, before the factor
  bool instead = false;               ///< these are the groups of the collectives at these events
  /// Elements along the last dims that count so often too often.
  std::optional<std::pair<std::vector<double>, double>> added = {};
  std::optional<ReduceOp> op = {};  ///< of `reduced`, or else of the collectives at these events
  std::string parameter = {};       ///< the one added: its own gradient may still differ
  std::string added_at = {};        ///< the place of the call that adds to a term
  std::string text;                 ///< "dist.all_reduce(y)    # of ..."
};

struct TakenBy {
  std::string place, key;  ///< as in ComparedPoint
};

/// A value of B that is not A's.
struct BlamedValue {
  ComparedPoint point;  ///< its parts are left out
  std::string what;     ///< "2 times A's value"
  Explained cause;
  std::vector<std::string> through;  ///< moves and collectives between A's values and it
  TakenBy taken = {};                ///< a call that takes a term as the whole
  std::string end = {};              ///< the parameter or gradient that shows it after the step
  bool of_right = false;             ///< a collective made it of A's value
  bool follows = false;              ///< computed from one that is wrong
};

struct RecordingBlame {
  bool same_names = false;  ///< both have a module or a parameter of one name
  std::int64_t compared = 0;
  std::size_t played = 0;  ///< events of B
  /// Ranks have events of their own, and one makes other calls outside of modules than A, as where
  /// it alone counts a value: their numbers say nothing then, and those of a line may.
  bool other_calls = false;
  std::int64_t on_the_way = 0;              ///< not A's, though loss, gradients and parameters are
  std::optional<double> first_factor = {};  ///< of the first gradient on its way, in A's
  bool right_loss = false;         ///< a loss that backward begins with is A's, or terms of it
  std::vector<BlamedValue> wrong;  ///< in the order of B
  /// Gradients of parameters that are terms when backward has made them, and that no collective
  /// adds up in place.
  std::vector<BlamedValue> terms;
  std::set<std::int32_t> reduced;    ///< numbers of values that a collective wrote
  std::vector<RecordingEdit> edits;  ///< with each of them nothing differs
  std::int64_t tried = 0;
  std::vector<ReplayDifference> types;  ///< claims and moves of spmd_types that A contradicts
  bool found() const { return !wrong.empty() || !types.empty(); }
};

/// In the order of B, but the first that follows from nothing is put before all others: it is the
/// one to look at.
void put_cause_first(RecordingBlame& blame);

}  // namespace shardlab
