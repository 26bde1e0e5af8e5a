// micro_batches.h - values of a program A that takes its batch in several parts: another program
// may cut it elsewhere, and has other rows in each part.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/replay/explain.h"
#include "sim/replay/points.h"

namespace shardlab {

/// Used by one thread.
class MicroBatches {
 public:
  /// How B's value is held if this is A's.
  using Explain = std::function<Explained(const PointPart& a)>;

  /// The points outlive it.
  explicit MicroBatches(const PointsOfA& a);

  /// Before the first event of B.
  void begin(const RecordedProgram& b);
  /// A adds up gradients over several backwards.
  bool several() const { return several_; }
  /// B has other rows in its parts than A.
  bool cut_otherwise() const { return cut_otherwise_; }
  /// The event looks at a gradient as the last backward of B has left it.
  bool is_last_look(std::size_t event) const { return last_looks_.contains(event); }
  /// No gradient of its rank comes behind it.
  bool is_behind_backward(std::size_t event) const {
    return event < behind_.size() && behind_[event];
  }
  /// The key of the gradient that the last backward of A has left.
  std::string last(const std::string& key) const;

  /// Looks once more at a value that is no part of A's with its key: it may be rows of any of A's
  /// parts, and nothing is known of a sum over the rows of one.
  void judge(const ComparedPoint& point, const Explain& explain, Explained& all);
  /// How many times A's the gradients of rows are: each is larger where a mean is over less rows.
  void see_flow(Explained& all);

 private:
  const PointPart* rows(const std::string& key);
  Explained explained(const ComparedPoint& point, const PointPart& rows,
                      const Explain& explain) const;

  const PointsOfA& a_;
  bool several_ = false, cut_otherwise_ = false;
  double factor_ = 1;                      // of gradients of rows, in A's
  std::map<std::string, PointPart> rows_;  // A's values by a key without counts
  std::set<std::size_t> last_looks_;
  std::vector<bool> behind_;  // by event
};

}  // namespace shardlab
