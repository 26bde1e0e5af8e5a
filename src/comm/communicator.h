// communicator.h - the first door: moves bytes between the ranks of one process group (B-1;
// src/README.md, "Two doors"). Independent of placements. One object per rank and group, used by
// that rank only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/call.h"

namespace shardlab {

class MeshLayout;

/// Collectives return their result, so that a backend may hand one Buffer to all ranks: results are
/// copy-on-write, like every Storage. Inputs may have any strides; results are contiguous. Every
/// rank of the group takes part, also with an empty tensor (K-9).
///   fails  Runtime, verdict "mismatch": ranks entered different collectives, or with other dtype,
///          lengths, op (B-5); every rank gets the report. Runtime when another rank failed (B-7).
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual std::int64_t rank() const = 0;  ///< in the group
  virtual std::int64_t size() const = 0;
  /// Global ranks in group order.
  virtual std::span<const std::int64_t> ranks() const = 0;
  virtual const std::string& name() const = 0;

  /// The door: every collective passes here as a value, of every kind but kSplit. Arguments have
  /// been checked, groups of one rank call only for permute, batch and all_gather_bytes. Returns
  /// the result of the kinds that give_tensor(); on ranks that get none it is not read. The objects
  /// that `call` points to live no longer than perform; call.x is contiguous for kinds that reduce.
  virtual Tensor perform(Call& call) = 0;
  /// Gives the group ranks that do the same as this one from here on, with partners counted from
  /// themselves: those with the same `answer`, a pure function. Before a batch; called only where
  /// one rank represents many.
  virtual void compare_answers(const std::function<std::uint64_t(std::int64_t group_rank)>& answer);
  /// A new group of the ranks that pass an equal colour, ordered by key, then rank. Collective over
  /// this group. A negative colour gives null.
  virtual std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key,
                                              std::string name) = 0;
  /// The group along dims of a mesh (ascending) that holds this rank, in the mesh's order; null
  /// outside of the mesh. Collective over this group. Parts of one mesh may be made in the same
  /// call, so ranks may pass different layouts. A split, unless a backend identifies groups by
  /// their strides.
  virtual std::unique_ptr<Communicator> along(const MeshLayout& layout,
                                              std::span<const std::size_t> mesh_dims);
  /// Ends the world: every other rank's wait fails with this reason.
  virtual void abort(const Error& reason) = 0;
  /// perform() for calls without a tensor as result. For communicators of many ranks on one
  /// processor, where the memory of an empty one matters; wrappers do not override it, and see the
  /// call in perform.
  virtual void meet(Call& call);

  // The collectives, as users call them: each checks its arguments, on this rank and before others
  // receive the call (Value), fills in a Call and performs it. Groups of one rank answer by
  // themselves.

  /// avg divides the sum by the group size (integers: Value). f16 and bf16 accumulate in f32 and
  /// round once; terms are combined in ascending group rank (K-21).
  Tensor all_reduce(const Tensor& x, ReduceOp op, Issue issue = Issue::kWait);
  /// all_reduce whose result the destination alone gets; elsewhere an undefined tensor.
  Tensor reduce(const Tensor& x, std::int64_t destination, ReduceOp op, Issue issue = Issue::kWait);
  /// Concatenates along `dim`; rank i passes lengths[i]. All other dims agree.
  Tensor all_gather(const Tensor& x, std::int64_t dim, Lengths lengths, Issue issue = Issue::kWait);
  /// Reduces, then rank i keeps its lengths[i] elements of `dim`.
  Tensor reduce_scatter(const Tensor& x, std::int64_t dim, Lengths lengths, ReduceOp op,
                        Issue issue = Issue::kWait);
  /// Cuts x along split_dim (rank i gets split_lengths[i]) and concatenates the received pieces
  /// along concat_dim (rank i passes concat_lengths[i]).
  Tensor all_to_all(const Tensor& x, std::int64_t split_dim, Lengths split_lengths,
                    std::int64_t concat_dim, Lengths concat_lengths, Issue issue = Issue::kWait);
  /// x is read on the source only; `meta` is that of the result.
  Tensor broadcast(const Tensor& x, std::int64_t source, const TensorMeta& meta,
                   Issue issue = Issue::kWait);
  /// Rank i gets lengths[i] elements of `dim` of the source's x; `meta` is the whole's.
  Tensor scatter(const Tensor& x, std::int64_t source, std::int64_t dim, Lengths lengths,
                 const TensorMeta& meta, Issue issue = Issue::kWait);
  /// On the destination the concatenation along `dim`; elsewhere an undefined tensor.
  Tensor gather(const Tensor& x, std::int64_t destination, std::int64_t dim, Lengths lengths,
                Issue issue = Issue::kWait);
  /// Sends x to group rank `to` (-1: none) and returns the tensor that `from` sent (-1: undefined).
  Tensor permute(const Tensor& x, std::int64_t to, std::int64_t from, const TensorMeta& received);
  /// Sends x to group rank `to`, which calls recv with this rank and an equal tag; messages between
  /// two ranks under one tag keep their order. Returns once it is received; with kAsync at once,
  /// and the result, which has no elements, is pending until then. Other ranks take no part.
  Tensor send(const Tensor& x, std::int64_t to, std::int64_t tag, Issue issue = Issue::kWait);
  /// The tensor that group rank `from` sends, which has as many elements as `received`, of its
  /// dtype.
  Tensor recv(const TensorMeta& received, std::int64_t from, std::int64_t tag,
              Issue issue = Issue::kWait);
  /// The tensor that some rank sends under the tag: of several the order of ranks decides. `from`
  /// is set.
  Tensor recv_from_any(const TensorMeta& received, std::int64_t tag, std::int64_t& from);
  /// Received tensors in the order of `exchange`; undefined where nothing is received.
  std::vector<Tensor> batch(std::span<const SendRecv> exchange);
  std::vector<std::string> all_gather_bytes(std::string_view bytes);
  void barrier();

 protected:
  /// Notes the caller and its place, and waits for `x`, which may be null or undefined.
  static void begin(Call& call, const Tensor* x);

 private:
  void check_peer(std::string_view what, std::int64_t peer) const;
  void check_dim(const Call& call, std::int64_t dim, std::int64_t ndim) const;
  void check_lengths(const Call& call, Lengths lengths) const;
  void check_piece(const Call& call, std::int64_t dim, std::int64_t wanted) const;
  void check_source(const Call& call, const Tensor& x, const TensorMeta& meta) const;
  void check_reducible(const Call& call) const;
};

/// "tp", or names joined by "_": the name of a group along these dims.
std::string group_name(const MeshLayout& layout, std::span<const std::size_t> mesh_dims);

}  // namespace shardlab
