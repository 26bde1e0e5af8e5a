// marks.h - values that must agree with the single-device run bit for bit, and mesh dims along
// which ranks hold values of their own (V-4).
#pragma once

#include <cstdint>
#include <vector>

#include "comm/forwarding_observer.h"
#include "mesh/mesh_layout.h"

namespace shardlab {

/// Computed by movement and elementwise ops alone, from exact values: its bits are the same for all
/// cuts. So are those of integers that were added up. True for a value that no observer marked.
bool is_exact(const DTensor& x);
/// Its bytes were changed since it got its name: a write by another tensor over the same memory
/// (to_local, a view) counts as added up, because the writer is not known here.
void note_change(const DTensor& x);

/// Mesh dims as bits. Dims beyond the last bit, and of meshes that are not a part of the program's,
/// count as all of them if ranks may differ, and as none if they agree.
using MeshDims = std::uint32_t;
inline constexpr int kMarkedDims = 14;

/// A plain tensor that holds one rank's piece or term, or was made of one: the dims along which the
/// ranks may hold other values. An all_reduce, all_gather or broadcast over a dim removes it.
MeshDims varies_along(const DTensor& x);
/// Ranks have made terms of what they have alike, without a collective: they vary along all dims.
void note_terms(const DTensor& x);
inline bool is_rank_local(const DTensor& x) { return varies_along(x) != 0; }
/// A plain tensor that follows from collectives of the program's own: the dims of their groups.
MeshDims collected_along(const DTensor& x);

/// Marks the values of one rank while it runs, in DTensorImpl::note, and passes everything on. If a
/// value is only observed from a point on, all values that were made before count as exact. Used by
/// its rank.
class Marks final : public ForwardingObserver {
 public:
  /// `next` outlives this one; may be null. `mesh` is the program's; null: each mesh is its own.
  explicit Marks(Observer* next, const MeshLayout* mesh = nullptr)
      : ForwardingObserver(next), mesh_(mesh) {}

  void call_begins(const CallRecord& call) override;
  void call_ends(const CallRecord& call) override;
  void call_fails() override;
  void placed(const PlacedRecord& record) override;
  void collective_ends(const CollectiveCall& call) override;

 private:
  // A collective whose result no tensor has yet.
  struct Exchange {
    const Storage* result = nullptr;
    MeshDims over = 0;
    bool all_get_one = false;  ///< every rank of the group has the same result
    bool known = true;         ///< the group is along mesh dims
  };
  MeshDims dims_of(const MeshLayout& layout, std::size_t mesh_dim) const;
  std::uint32_t note_of_local(const DTensor& from) const;
  std::uint32_t note_of_collected(const PlacedRecord& record);

  const MeshLayout* mesh_;
  /// For each running op: true if an operand was added up on the way to its placement.
  std::vector<bool> added_up_;
  std::vector<Exchange> exchanges_;
};

}  // namespace shardlab
