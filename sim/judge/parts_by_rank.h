// parts_by_rank.h - parts, such as x[rank] and x.chunk(2)[rank], that ranks take by their number
// out of a value that all of them have. If all parts together are that value, or are taken from all
// places of it, one device takes all of it. Private to the files that run scenarios.
#pragma once

#include <map>
#include <set>
#include <utility>

#include "sim/run/program_run.h"
#include "sim/verify/global_value.h"

namespace shardlab {

class PartsByRank {
 public:
  /// `expressions` outlives this; `ranks`: of the world.
  PartsByRank(const std::set<SourceSpan>& expressions, const MeshLayout& layout, std::int64_t ranks)
      : expressions_(expressions), layout_(layout), taken_(static_cast<std::size_t>(ranks)) {}

  /// Keeps what the ranks of a run take.
  PartListener listener();
  /// Gives one device the whole; once the ranks have run.
  PartListener wholes();
  const std::set<SourceSpan>* expressions() const { return &expressions_; }
  /// Expressions whose parts always made the whole.
  std::set<SourceSpan> pieces() const;

 private:
  using Place = std::pair<SourceSpan, std::int64_t>;
  struct Taken {
    GlobalValue part;
    Dims shape = {};  ///< of all that it is taken out of
    int dim = -1;     ///< along which it is a view of that; -1: it is none
    std::int64_t begin = 0, end = 0;
  };
  static Taken taken_from(const Value& whole, const Tensor& part);
  std::optional<Value> whole_of(const Place& place, const Value& whole);
  std::vector<const Taken*> parts_of(const Place& place) const;

  const std::set<SourceSpan>& expressions_;
  const MeshLayout& layout_;
  std::vector<std::map<Place, Taken>> taken_;  // by rank
  std::map<Place, int> decided_;  // the dim along which a list is put together; -1: a tensor
  std::set<SourceSpan> others_;   // that are no pieces
};

}  // namespace shardlab
