// class_log.h - the calls of one class of ranks on its groups, in order; read when all classes have
// run, to check whether their calls meet.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/shared/call.h"

namespace shardlab::fake {

/// The kind of a group: the world, or all lines along some mesh dims that were made in the same
/// call on the world.
struct GroupKind {
  std::int64_t made = -1;              ///< the world's call that made it; -1: the world itself
  std::vector<std::size_t> mesh_dims;  ///< ascending
  auto operator<=>(const GroupKind&) const = default;
};

/// An action of a rank on a group. A call that waits at once is both.
struct LogEntry {
  enum class Kind : std::uint8_t { kEnters, kWaits };
  Kind kind = Kind::kEnters;
  std::size_t call = 0;  ///< in ClassLog::calls
};

/// A call outlives its caller here: it points into the log.
struct LoggedCall {
  explicit LoggedCall(CollectiveKind kind) : call(kind) {}
  GroupKind group;
  std::string group_name;
  std::uint64_t sequence = 0;  ///< on its group
  std::size_t channel = 0;     ///< one number for calls of one group, or of messages that may meet
  backends::Call call;
  Tensor x;
  TensorMeta expected;
  std::shared_ptr<const std::vector<std::int64_t>> lengths, concat_values;
  Lengths concat_lengths;
  std::int64_t rank = 0;           ///< in the group; partners of a batch are counted from it
  std::vector<SendRecv> exchange;  ///< batch
  backends::BatchPart batch;
};

/// A message is taken from whoever sends one first.
inline bool takes_any(const backends::Call& call) {
  return call.kind == CollectiveKind::kRecv && call.from < 0;
}

/// Everything that one class entered and waited for, in its order.
struct ClassLog {
  std::vector<std::unique_ptr<LoggedCall>> calls;
  std::vector<LogEntry> entries;
  std::size_t channels = 0;    ///< of its calls
  std::optional<Error> error;  ///< the error that ended its program
  /// Its last call takes a message from any rank, and the sender is not known yet.
  bool open = false;
};

/// Equal vectors once: lengths of a group are long and the same in many calls.
class LengthsTable {
 public:
  /// The one vector with these lengths; its holders keep it alive.
  std::shared_ptr<const std::vector<std::int64_t>> keep(Lengths lengths);

 private:
  std::map<std::uint64_t, std::vector<std::shared_ptr<const std::vector<std::int64_t>>>> by_hash_;
};

}  // namespace shardlab::fake
