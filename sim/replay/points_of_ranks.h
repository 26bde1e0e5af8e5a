// points_of_ranks.h - points of a recording in which ranks have events of their own, put together.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "sim/replay/points.h"

namespace shardlab {

/// Points that several ranks have in events of their own: one when the last of them has come to it.
class PointsOfRanks {
 public:
  PointsOfRanks(const PointsOfA& a, const RecordedProgram& program, PointNames names);

  /// False: it is put together with those of the ranks to come, or is another call than A's: calls
  /// are counted, and the rank does not make as many.
  bool whole(ComparedPoint& point);

 private:
  using Counts = std::map<std::string, std::size_t>;

  bool is_as_often(const Counts& calls, const std::string& call) const;

  Counts ranks_, calls_of_a_;            // of a key how many ranks have it
  std::map<std::size_t, Counts> calls_;  // by rank
  std::map<std::string, ComparedPoint> begun_;
};

}  // namespace shardlab
