// in_flight.h - tensors that collectives fill, or send from, while the program continues: until it
// waits, those being filled are not read and none of them is written. Used by one rank.
#pragma once

#include <string>
#include <vector>

#include "base/collective_kind.h"
#include "base/rank_context.h"
#include "tensor/tensor.h"

namespace shardlab {

class InFlight {
 public:
  enum class Use : std::uint8_t { kFilled, kSent };
  struct Entry {
    const void* owner = nullptr;  ///< removes it again
    Tensor memory;
    Use use = Use::kFilled;
    CollectiveKind kind = CollectiveKind::kAllReduce;
    std::string group;
    SourcePosition position;  ///< of the call
  };

  bool empty() const { return entries_.empty(); }
  void add(Entry entry) { entries_.push_back(std::move(entry)); }
  void remove(const void* owner);

  enum class Access : std::uint8_t { kRead, kWrite };
  ///   fails  Runtime: x shares memory with tensors in flight, naming the collective and its line
  void check(const Tensor& x, Access access) const;

 private:
  std::vector<Entry> entries_;
};

}  // namespace shardlab
