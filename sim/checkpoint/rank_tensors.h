// rank_tensors.h - checkpoints in programs: each rank writes, and reads, the bytes of its own
// pieces and no others.
#pragma once

#include <string>

#include "api/parallel.h"
#include "sim/checkpoint/checkpoint.h"

namespace shardlab {

/// Writes this rank's pieces as safetensors of ranks, replicas once, by the rank that has the
/// first; plain tensors by rank 0. Names may not differ between ranks. Every rank calls this, and
/// it returns when the files of all ranks are there. Files in the folder that an earlier save by
/// other ranks left are removed.
///   fails  Value: a pending reduction. Unsupported: a dtype that safetensors does not have.
///          Runtime: it cannot be written
void save(const NamedTensors& tensors, const std::string& folder);

/// This rank's piece of a tensor, on its device. A rank may load alone.
///   fails  Value: no such tensor; cut short or damaged. Unsupported: a dtype that no kernel takes
DTensor load(const Checkpoint& checkpoint, const std::string& name, const MeshLayout* mesh,
             const Placements& placements);
/// The same, opened for this tensor alone.
DTensor load(const std::string& path, const std::string& name, const MeshLayout* mesh,
             const Placements& placements);

}  // namespace shardlab
