// filling.h - while a collective that fills tensors runs, ops put together the data to send and
// deal out received data: observers are called for them as for others, and a report leaves them
// out.
#pragma once

#include "base/rank_context.h"

namespace shardlab {

inline constexpr std::uint32_t kModeFilling = 1u << 16;  ///< a ModeBit
/// A ModeBit: a sending rank continues before the message is received (SendMode::kBuffered).
inline constexpr std::uint32_t kModeBufferedSends = 1u << 17;

class FillingScope {
 public:
  FillingScope() : rank_(current_rank()), before_(rank_.mode) { rank_.mode |= kModeFilling; }
  ~FillingScope() { rank_.mode = before_; }
  FillingScope(const FillingScope&) = delete;
  FillingScope& operator=(const FillingScope&) = delete;

 private:
  RankContext& rank_;
  const std::uint32_t before_;
};

}  // namespace shardlab
