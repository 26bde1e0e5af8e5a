// filling.h - while a collective that fills tensors runs, ops put together what is sent and deal
// out what arrives: they are told to observers like others, and a report has none of them.
#pragma once

#include "base/rank_context.h"

namespace shardlab {

inline constexpr std::uint32_t kModeFilling = 1u << 16;  ///< a ModeBit
/// A ModeBit: a rank that sends goes on before anybody has received (SendMode::kBuffered).
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
