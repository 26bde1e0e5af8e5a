// A stay ends when more is held at another line or in another pass: memory freed on the way there
// shows in the next stay.
#include "sim/run/memory_timeline.h"

namespace shardlab {

void MemoryTimeline::changed(const MemoryAccount& account) {
  const RankContext& rank = current_rank();
  const bool stays = !points_.empty() && points_.back().line == rank.position.line &&
                     points_.back().pass == rank.pass;
  const bool more = account.held_bytes > last_;
  last_ = account.held_bytes;
  if (!stays && !more) return;
  if (!stays) points_.push_back({rank.position.line, rank.pass, 0, {}});
  MemoryPoint& point = points_.back();
  if (stays && account.held_bytes < point.bytes) return;
  point.bytes = account.held_bytes;
  point.held = account.held;
}

}  // namespace shardlab
