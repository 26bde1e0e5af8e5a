// micro_batches.h - values of a program A that takes its batch in several parts: another program
// may cut it elsewhere, and has other rows in each part.
#pragma once

#include <map>
#include <set>
#include <string>

#include "sim/replay/points.h"

namespace shardlab {

/// Used by one thread.
class MicroBatches {
 public:
  /// The points outlive it.
  explicit MicroBatches(const PointsOfA& a);

  /// A adds up gradients over several backwards.
  bool several() const { return several_; }
  /// A's value of this name in all of them, as rows of one; null: it has no rows.
  const PointPart* rows(const std::string& key);
  /// The key of the gradient that the last of them has left.
  std::string last(const std::string& key) const;

 private:
  const PointsOfA& a_;
  bool several_ = false;
  std::map<std::string, PointPart> rows_;  // by a key without counts
};

/// Events that look at gradients as the last backward has left them.
std::set<std::size_t> last_gradients(const RecordedProgram& program);

}  // namespace shardlab
