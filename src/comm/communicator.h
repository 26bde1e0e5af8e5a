// communicator.h - the first door: moves bytes between the ranks of one process group (B-1, design
// section 6). Knows nothing of placements. One object per rank and group, used by that rank only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/collective_kind.h"
#include "base/error.h"
#include "base/rank_context.h"
#include "base/reduce_op.h"
#include "tensor/tensor.h"

namespace shardlab {

class MeshLayout;

/// One element count per group rank, along the named tensor dim; zeros allowed.
using Lengths = std::span<const std::int64_t>;

/// Whether a call returns with its result in place, or with a pending Work on the result's Storage.
enum class Issue : std::uint8_t { kWait, kAsync };

/// One peer's part of a batch.
struct SendRecv {
  std::int64_t peer = 0;  ///< group rank
  Tensor send;            ///< undefined: nothing is sent
  bool receives = false;
  TensorMeta receive;  ///< what arrives, when `receives`
};

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

  /// avg divides the sum by the group size (integers: Value). f16 and bf16 accumulate in f32 and
  /// round once; terms are combined in ascending group rank (K-21).
  virtual Tensor all_reduce(const Tensor& x, ReduceOp op, Issue issue) = 0;
  /// Concatenates along `dim`; rank i brings lengths[i]. All other dims agree.
  virtual Tensor all_gather(const Tensor& x, std::int64_t dim, Lengths lengths, Issue issue) = 0;
  /// Reduces, then rank i keeps its lengths[i] elements of `dim`.
  virtual Tensor reduce_scatter(const Tensor& x, std::int64_t dim, Lengths lengths, ReduceOp op,
                                Issue issue) = 0;
  /// Cuts x along split_dim (rank i gets split_lengths[i]) and concatenates what arrives along
  /// concat_dim (rank i brings concat_lengths[i]).
  virtual Tensor all_to_all(const Tensor& x, std::int64_t split_dim, Lengths split_lengths,
                            std::int64_t concat_dim, Lengths concat_lengths, Issue issue) = 0;
  /// x is read on the source only; `meta` is what arrives.
  virtual Tensor broadcast(const Tensor& x, std::int64_t source, const TensorMeta& meta) = 0;
  /// Rank i gets lengths[i] elements of `dim` of the source's x; `meta` is the whole's.
  virtual Tensor scatter(const Tensor& x, std::int64_t source, std::int64_t dim, Lengths lengths,
                         const TensorMeta& meta) = 0;
  /// On the destination the concatenation along `dim`; elsewhere an undefined tensor.
  virtual Tensor gather(const Tensor& x, std::int64_t destination, std::int64_t dim,
                        Lengths lengths) = 0;
  /// Sends x to group rank `to` (-1: nobody) and returns what `from` sent (-1: undefined).
  virtual Tensor permute(const Tensor& x, std::int64_t to, std::int64_t from,
                         const TensorMeta& received) = 0;
  /// Received tensors in the order of `exchange`; undefined where nothing is received.
  virtual std::vector<Tensor> batch(std::span<const SendRecv> exchange) = 0;
  /// Says which group ranks do what this one does from here on, partners counted from themselves:
  /// those with the same `answer`, a pure function. Before a batch; only asked where one rank
  /// stands for many.
  virtual void tell_apart(const std::function<std::uint64_t(std::int64_t group_rank)>& answer);
  virtual std::vector<std::string> all_gather_bytes(std::string_view bytes) = 0;
  virtual void barrier() = 0;

  /// A new group of the ranks that bring an equal colour, ordered by key, then rank. Collective
  /// over this group. A negative colour gives null.
  virtual std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key,
                                              std::string name) = 0;
  /// The group along dims of a mesh (ascending) that holds this rank, in the mesh's order; null
  /// outside of the mesh. Collective over this group. Parts of one mesh may be made in the same
  /// call, so ranks may bring different layouts. A split, unless a backend knows groups by their
  /// strides.
  virtual std::unique_ptr<Communicator> along(const MeshLayout& layout,
                                              std::span<const std::size_t> mesh_dims);
  /// Ends the world: every other rank's wait fails with this reason.
  virtual void abort(const Error& reason) = 0;
};

/// "tp", or names joined by "_": what a group along these dims is called.
std::string group_name(const MeshLayout& layout, std::span<const std::size_t> mesh_dims);

}  // namespace shardlab
