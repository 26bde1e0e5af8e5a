// filling.h - while a collective that fills tensors runs, ops put together the data to send and
// deal out received data: observers are called for them as for others, and a report leaves them
// out.
#pragma once

#include "base/rank_context.h"

namespace shardlab {

inline constexpr std::uint32_t kModeFilling = 1u << 16;  ///< a ModeBit
/// A ModeBit: a sending rank continues before the message is received.
inline constexpr std::uint32_t kModeBufferedSends = 1u << 17;
/// ModeBits: messages are posted as one batch; the second one differs from batch to batch.
inline constexpr std::uint32_t kModeBatch = 1u << 18;
inline constexpr std::uint32_t kModeOddBatch = 1u << 19;
/// A ModeBit: the answer to a poll is that of the fabric. Else a poll waits, and is true.
inline constexpr std::uint32_t kModePolls = 1u << 20;
/// A ModeBit: what is posted waits in queues of the device, and torch.cuda.synchronize() for it.
inline constexpr std::uint32_t kModeQueues = 1u << 21;
/// A ModeBit: an answer is asked for in passing, as the host waits for its device.
inline constexpr std::uint32_t kModeSynchronizes = 1u << 22;
/// The batch that the rank posts: equal for messages of one batch; 0: none.
inline std::uint32_t open_batch(const RankContext& rank) {
  return (rank.mode & kModeBatch) == 0 ? 0 : rank.mode & (kModeBatch | kModeOddBatch);
}

/// While one lives, messages of the running rank are posted as one batch: none waits for another.
class BatchScope {
 public:
  BatchScope() : rank_(current_rank()) {
    rank_.mode ^= kModeOddBatch;
    rank_.mode |= kModeBatch;
  }
  ~BatchScope() { rank_.mode &= ~kModeBatch; }
  BatchScope& operator=(BatchScope&&) = delete;

 private:
  RankContext& rank_;
};

}  // namespace shardlab
