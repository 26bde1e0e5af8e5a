// in_flight.h - tensors that collectives fill, or send from, while the program continues: until it
// waits, those being filled are not read and none of them is written. Used by one rank.
#pragma once

#include <map>
#include <string>

#include "base/collective_kind.h"
#include "base/rank_context.h"
#include "tensor/tensor.h"

namespace shardlab {

class InFlight {
 public:
  enum class Use : std::uint8_t { kFilled, kSent };
  struct Entry {
    Tensor memory;
    Use use = Use::kFilled;
    CollectiveKind kind = CollectiveKind::kAllReduce;
    std::string group;
    SourcePosition position;  ///< of the call
  };

  using Entries = std::multimap<const Storage*, Entry>;

  bool empty() const { return entries_.empty(); }
  /// Gives its place, for remove().
  Entries::iterator add(Entry entry);
  void remove(Entries::iterator place) { entries_.erase(place); }

  enum class Access : std::uint8_t { kRead, kWrite };
  ///   fails  Runtime: x shares memory with tensors in flight, naming the collective and its line
  void check(const Tensor& x, Access access) const;

 private:
  Entries entries_;
};

}  // namespace shardlab
