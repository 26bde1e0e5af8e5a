// process_group.h - a named, ordered set of ranks with its communicator, and the one place where
// collectives are counted and observed. One object per rank, used by that rank only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/inline_vector.h"
#include "comm/forwarding_communicator.h"
#include "mesh/mesh_layout.h"

namespace shardlab {

/// The ranks of a group: two groups are one where their identities are equal. A value; costs
/// nothing per rank.
struct GroupIdentity {
  std::string name = "world";              ///< mesh dim name, several joined by "_", or "world"
  const MeshLayout* layout = nullptr;      ///< null: all ranks of the world
  InlineVector<std::size_t, 4> mesh_dims;  ///< of `layout`, ascending: the group is along these
  std::int64_t first_rank = 0;             ///< global rank of its first one
  std::int64_t size = 1;

  /// Global ranks in group order. Time and memory in proportion to `size`.
  std::vector<std::int64_t> ranks() const;
  bool operator==(const GroupIdentity&) const = default;
};

/// One collective as entered by one rank. Group and sequence identify it: ranks that took part in
/// the same one agree in both, and so does its wait (Observer::collective_waits).
struct CollectiveRecord {
  CollectiveKind kind = CollectiveKind::kBarrier;
  GroupIdentity group;
  std::int64_t sequence = 0;  ///< in the group, from 0; messages count apart
  Issue issue = Issue::kWait;
  DType dtype = DType::kF32;
  Dims input_shape;              ///< this rank's input
  ReduceOp op = ReduceOp::kSum;  ///< reductions only
  /// The amount that the price follows from (ring_sends, collective_us): bytes of the input; of an
  /// all_gather and a broadcast of the whole result, uneven pieces included; of a permute, a batch
  /// and a message what this rank sends or gets, whichever is more.
  double bytes = 0;
  double sent_bytes = 0;  ///< sent by a ring from this rank (scenarios/README.md)
  Pass pass = Pass::kForward;
  SourcePosition position;
  // A message has the other rank, in the group's order (-1: received from any), and a tag.
  std::int32_t peer = -1;
  std::int32_t tag = 0;
};

/// A communicator that reports each call to the running rank's observer. Groups of one rank never
/// communicate and report nothing (B-12). Aligned, so that the fields at its beginning, which every
/// collective reads, are on one cache line.
class alignas(32) ProcessGroup final : public ForwardingCommunicator {
 public:
  /// All ranks of the world.
  explicit ProcessGroup(std::unique_ptr<Communicator> world);
  /// The group that holds this rank, at `coordinate`, along these dims of a mesh (ascending).
  ProcessGroup(std::unique_ptr<Communicator> communicator, const MeshLayout* layout,
               std::span<const std::size_t> mesh_dims, Coordinate coordinate);

  const GroupIdentity& identity() const { return identity_; }
  std::int64_t size() const override { return size_; }
  const std::string& name() const override { return identity_.name; }
  /// Uncounted access: placing inputs, verification, control.
  Communicator& communicator() { return real(); }

  /// Counts, calls the observer and passes on. The result may be pending; the wait is reported to
  /// the observer when the result is needed. Fails as the communicator does.
  Tensor perform(Call& call) override;
  void meet(Call& call) override;

 protected:
  /// The maker of a group names it and watches it.
  std::unique_ptr<Communicator> wrap(std::unique_ptr<Communicator> part) override { return part; }

 private:
  CollectiveRecord record_of(const Call& call, std::int64_t sequence) const;

  [[gnu::noinline]] Tensor perform_observed(Call& call, std::int64_t sequence);
  [[gnu::noinline]] void meet_observed(Call& call, std::int64_t sequence);

  // First the fields that every collective reads.
  const std::int64_t size_;
  // Collectives of this rank on this group; equal on all ranks of the group between two of them.
  std::int64_t entered_ = 0;
  GroupIdentity identity_;
  std::int64_t messages_ = 0;  // likewise
};

}  // namespace shardlab
