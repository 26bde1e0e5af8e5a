// points_of_ranks.h - points of a recording that are A's, and those in which ranks have events of
// their own, put together.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "sim/replay/points.h"

namespace shardlab {

/// Points that several ranks have in events of their own: one when the last of them has come to it.
class PointsOfRanks {
 public:
  /// `a` outlives it.
  PointsOfRanks(const PointsOfA& a, const RecordedProgram& program, PointNames names);

  /// A rank with events of its own makes other calls outside of modules than A.
  bool makes_other_calls() const;
  /// False: it is put together with those of the ranks to come, or is another call than A's: calls
  /// are counted, and the rank does not make as many in a pass. A loss is one if its call was not.
  bool whole(ComparedPoint& point);

 private:
  using Counts = std::map<std::string, std::size_t>;

  bool is_as_often(std::int32_t rank, const std::string& call) const;
  void keep_whole_model(ComparedPoint& point) const;

  const PointsOfA& a_;
  Counts ranks_, calls_of_a_;                 // of a key how many ranks have it
  std::map<std::int32_t, Counts> calls_;      // by rank; -1: of all
  std::size_t passes_ = 1, passes_of_a_ = 1;  // that leave gradients
  std::map<std::string, ComparedPoint> begun_;
  std::set<std::int32_t> met_;  // results
};

}  // namespace shardlab
