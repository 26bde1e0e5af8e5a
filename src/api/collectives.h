// collectives.h - collectives that a program calls: on a rank's own, plain tensors, over one group.
// Those that return a tensor carry gradients, as torch's functional collectives do (B-23): in
// backward every rank of the group runs the adjoint. Every rank of the group takes part, with
// tensors of one dtype and of shapes that fit. Dims may count from the end. Used by one rank.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/collective_kind.h"
#include "base/reduce_op.h"
#include "comm/process_group.h"
#include "mesh/operand.h"

namespace shardlab {

// All fail with Value for a distributed tensor; Unsupported for one that records gradients where
// the adjoint is missing (max, min, product, avg of a reduce_scatter); Runtime where the tensors of
// the ranks do not fit together.
DTensor all_reduce(Operand x, ReduceOp op, ProcessGroup& group);
/// The tensors of all ranks, one after the other along `dim`; all of one size.
DTensor all_gather(Operand x, std::int64_t dim, ProcessGroup& group);
/// This rank's chunk, along `dim`, of the reduction; chunks as those of Shard.
DTensor reduce_scatter(Operand x, std::int64_t dim, ReduceOp op, ProcessGroup& group);
/// Rank i gets the i-th chunk along `split_dim`; received chunks are put together along
/// `concat_dim`.
DTensor all_to_all(Operand x, std::int64_t split_dim, std::int64_t concat_dim, ProcessGroup& group);
/// Rank i gets send[i] rows of x, and gives receive[i] to this one; empty lists: equal parts.
///   fails  Value: not one number for each rank; send does not add up to the rows of x
DTensor all_to_all(Operand x, const Dims& send, const Dims& receive, ProcessGroup& group);
/// The tensor of the rank at place `source` of the group. Fails with Value for no such place.
DTensor broadcast(Operand x, std::int64_t source, ProcessGroup& group);
void barrier(ProcessGroup& group, SourceLine place = {});

/// A collective that fills existing tensors, as those of torch.distributed do. Each side is one
/// tensor or a list with one for each rank: of all_gather(list, x) outputs are the list, of
/// all_gather_into_tensor(out, x) the one that has room for all. Of all_reduce, reduce and
/// broadcast the tensor is on both sides, on every rank; of a gather ranks but the destination have
/// no outputs, of a scatter ranks but the source no inputs. Entries of a list may differ in size
/// where the kind lets ranks know. A message is a kSend of one input to `root`, which calls a kRecv
/// into one output from this rank; other ranks take no part. It waits until it is received
/// (kModeBufferedSends: not), and the shapes may differ where the number of elements does not. A
/// kRecv from kAnyRank takes the first message to arrive, and waits for it.
inline constexpr std::int64_t kAnyRank = -1;
struct CollectInto {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::vector<DTensor> inputs, outputs;
  ReduceOp op = ReduceOp::kSum;  ///< of those that reduce
  std::int64_t root = 0;         ///< place in the group: of a source or a destination
  std::int64_t tag = 0;          ///< of a message: it is received under the tag of the sender
  /// All_to_all between two tensors: number of rows to each rank, and from it. Empty for equal
  /// parts.
  Dims send_rows = {}, receive_rows = {};
};
/// Writes the outputs; an output that records gradients is written all the same, and its gradient
/// passes as if nothing had been written, of which backward warns. Errors name kind, group and
/// shapes.
///   fails  Value: a distributed tensor; tensors of several dtypes, or of sizes that do not fit;
///          an output whose elements share memory, or leave gaps in it. Runtime where the tensors
///          of the ranks do not fit
void collect_into(const CollectInto& what, ProcessGroup& group, SourceLine place = {});
/// The same for a message from kAnyRank. Returns the sender's place in the group.
std::int64_t receive_from_any(const CollectInto& what, ProcessGroup& group, SourceLine place = {});

/// A collective that runs while the program continues. Until it has waited, the program neither
/// reads nor writes the tensors being filled, and does not write those being sent
/// (comm/in_flight.h).
class CollectiveWork;
using CollectiveWorkRef = std::shared_ptr<CollectiveWork>;
CollectiveWorkRef start_collect_into(const CollectInto& what, ProcessGroup& group,
                                     SourceLine place = {});
/// Returns when the outputs are written; at once the second time. Fails with Value for none.
void wait(const CollectiveWorkRef& work, SourceLine place = {});
/// Whether wait() would return at once. Never waits.
bool is_done(const CollectiveWork& work);

// Messages, by the names of torch.distributed: collect_into() with one tensor. `to` and `from` are
// places in the group.
void send(Operand x, std::int64_t to, ProcessGroup& group, std::int64_t tag = 0);
/// Fills `into`, from any rank if that is kAnyRank. Returns the sender's place.
std::int64_t recv(Operand into, std::int64_t from, ProcessGroup& group, std::int64_t tag = 0);
CollectiveWorkRef isend(Operand x, std::int64_t to, ProcessGroup& group, std::int64_t tag = 0);
CollectiveWorkRef irecv(Operand into, std::int64_t from, ProcessGroup& group, std::int64_t tag = 0);

}  // namespace shardlab
