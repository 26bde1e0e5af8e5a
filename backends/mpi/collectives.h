// collectives.h - the messages and computations of a rank in each collective.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/mpi/operation.h"
#include "backends/shared/call.h"

namespace shardlab::mpi {

/// A rank's place in a group. Each step of an operation has a tag of its own.
struct Seat {
  std::size_t rank;                     ///< in the group
  std::span<const std::int64_t> ranks;  ///< global, in group order
  int tag;
};
/// Tags that a group takes: of two steps, and of the rests of their pieces.
inline constexpr int kTagsPerGroup = 2 * kTagOfRests;

/// A collective with one result of this shape. Reads all that `call` points to at once, but for x's
/// elements. `result` is filled in when the operation is over.
struct TensorOperation {
  std::shared_ptr<Operation> operation;
  std::shared_ptr<BufferRef> result;
};
TensorOperation tensor_operation(Session& session, const Seat& seat, const backends::Call& call,
                                 const Dims& shape, DType dtype);

/// batch: fills in call.part, which must not move.
std::shared_ptr<Operation> batch_operation(Session& session, const Seat& seat,
                                           backends::Call& call);
/// all_gather_bytes: fills in `all`, which must not move, nor `mine`.
std::shared_ptr<Operation> bytes_operation(Session& session, const Seat& seat,
                                           std::string_view mine, std::vector<std::string>& all);
std::shared_ptr<Operation> barrier_operation(Session& session, const Seat& seat);

}  // namespace shardlab::mpi
