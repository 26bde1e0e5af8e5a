// fabric_log.h - posts and waits of the ranks of a world, in the order in which they happen: the
// steps of a proof, and the entries of a flight recorder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/shared/traffic.h"
#include "base/collective_kind.h"
#include "base/rank_context.h"
#include "tensor/tensor.h"

namespace shardlab {

/// Filled while ranks run, by one at a time; read when all have ended.
struct FabricLog {
  struct Group {
    std::string name;
    std::vector<std::int64_t> ranks;  ///< of the world
  };
  struct Call {
    std::int32_t rank = 0;
    CollectiveKind kind = CollectiveKind::kBarrier;
    Operation what;  ///< its group is one of `groups`
    SourcePosition position;
    const char* label = nullptr;  ///< of a message; may be null
    std::vector<TensorMeta> input, output;
    bool joins = false;   ///< the rank's last call, in one batch
    bool any = false;     ///< a receive from any rank; the sender is known since
    bool rounds = false;  ///< its last digits follow from the order in which terms are added
    bool complete = false;
  };
  struct Event {
    enum class Kind : std::uint8_t { kPost, kWait, kPoll, kSynchronize, kEnd };
    Kind kind = Kind::kPost;
    std::int32_t rank = 0;
    std::int32_t call = -1;  ///< of `calls`; -1: all of the rank
    SourcePosition position;
  };

  std::vector<Group> groups;
  std::vector<Call> calls;
  std::vector<Event> events;
  std::size_t most = 2'000'000;  ///< events; with more it is of no use
  /// Receives from any rank wait until no rank can go on; then one of them takes a message. The
  /// number of ways to do so, each time, and the way to take; 0 where there is none.
  bool chooses = false;
  std::vector<std::size_t> ways, way;

  bool full() const { return events.size() > most; }
};

}  // namespace shardlab
