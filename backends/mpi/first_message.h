// first_message.h - the message that begins each piece: the call that it belongs to and the length,
// then its first bytes. It is never longer than the memory that awaits it, so that a receiver knows
// that a piece is its own before the piece is written. MPI would not help: some libraries write a
// message into shorter memory, and behind it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/dtype.h"
#include "comm/call.h"

namespace shardlab::mpi {

/// Equal on both ends of a message, but for `bytes` where ranks differ.
struct Header {
  std::uint64_t bytes = 0;     ///< of the whole piece
  std::uint64_t sequence = 0;  ///< of the call on its group, or among messages of one way
  std::int32_t root = -1;
  std::int16_t dim = 0, concat_dim = 0;
  CollectiveKind kind = CollectiveKind::kBarrier;  ///< of a message kSend on both sides
  ReduceOp op = ReduceOp::kSum;                    ///< of kinds that reduce
  DType dtype = DType::kU8;                        ///< of kinds with one tensor

  bool operator==(const Header&) const = default;
};

/// With the header 4,032: libraries send 4,040 and more without asking the receiver first, and so
/// 1,000 floats go at once.
inline constexpr std::size_t kFirstBytes = 4'000;
struct FirstMessage {
  Header header;
  std::byte bytes[kFirstBytes];
};
/// Bytes of a piece in its first message: of a long one none, which saves a copy of them.
inline std::size_t bytes_in_first(std::size_t piece_bytes) {
  return piece_bytes > 2 * kFirstBytes ? 0 : std::min(piece_bytes, kFirstBytes);
}
using FirstMessageRef = std::unique_ptr<FirstMessage>;

}  // namespace shardlab::mpi
