// entered_call.h - one rank's part of a collective as other processes receive it: everything but
// the data.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/process/wire.h"
#include "backends/shared/call.h"

namespace shardlab::process {

/// The group of a collective, and its number there. The messages from one rank to another under one
/// tag are those of a group of the two.
struct CallPlace {
  std::int64_t group = 0;      ///< a number that no other group with one of its ranks has
  std::uint64_t sequence = 0;  ///< of the call on the group
  auto operator<=>(const CallPlace&) const = default;
};

/// Whether it is that of a receive from any rank of the group. Once it has met a message, its
/// sequence is the sender's group rank.
bool is_any(CallPlace place);
/// The sender, if a message of that way is one that a receive from any, at `any`, may take.
std::optional<std::int64_t> sender_for(CallPlace any, CallPlace way);

/// The messages that one rank has entered in one group, and the place where the next one meets its
/// other half.
class Ways {
 public:
  /// `group`: no other one with one of its ranks has this number; `ranks`: global, in group order,
  /// kept by the caller.
  Ways(std::int64_t group, std::int64_t rank, std::span<const std::int64_t> ranks)
      : group_(group), rank_(rank), ranks_(ranks) {}
  /// Fails with Unsupported for a message to itself.
  void check(const backends::Call& call) const;
  /// The place of the message that this rank enters next. A place of a receive from any does not
  /// count before its sender is known: then next() is called once more.
  ///   fails  Unsupported for numbers that have no room
  CallPlace next(const backends::Call& call);
  /// Global: sender, receiver; of a receive from any all of the group.
  std::vector<std::int64_t> ends(const backends::Call& call) const;

 private:
  const std::int64_t group_, rank_;
  const std::span<const std::int64_t> ranks_;
  std::map<std::int64_t, std::uint64_t> entered_;  ///< by the number of the way
};

/// A rank enters a collective.
struct Entrance {
  CallPlace place;
  std::string group;                ///< its name
  std::vector<std::int64_t> ranks;  ///< global, in group order
  bool waits = true;                ///< the rank does nothing else before it is over
};
template <typename T>
requires std::same_as<std::remove_const_t<T>, Entrance>
auto fields(T& x) { return std::tie(x.place, x.waits, x.group, x.ranks); }

/// A call with the memory that it points to; tensors have metadata only.
class EnteredCall {
 public:
  /// Writes the call as bytes for another process.
  static void put(Writer& writer, const backends::Call& call);
  /// Reads what put() wrote. Fails with Runtime when the bytes end too early.
  explicit EnteredCall(Reader& reader);
  EnteredCall& operator=(EnteredCall&&) = delete;

  backends::Call& call() { return call_; }

 private:
  backends::Call call_;
  Tensor x_;
  std::vector<std::int64_t> lengths_, concat_values_;
  Lengths concat_lengths_;
  TensorMeta expected_;
  std::vector<SendRecv> exchange_;
  backends::BatchPart batch_;
  std::string file_, op_name_;
};

}  // namespace shardlab::process
