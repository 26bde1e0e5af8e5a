// shard_table.h - recorded sequences of calls with their inputs placed in every way, against one
// device: the proof of `check --shard`, and its table.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/proof/op_proof.h"
#include "tests/facts/call_sequence.h"

namespace shardlab {

/// The sequences of one sample maker of the reference's suite.
struct OpInfoSequences {
  std::string opinfo;
  std::vector<std::shared_ptr<const CallSequence>> sequences;
};
/// The OpInfos of some files, in the order in which they come; `id`: only the sequence with this
/// id. Sequences of complex numbers of half precision are left out and counted in `skipped`.
///   fails  Value: a missing or damaged file, a line that is no sequence, nothing to prove
std::vector<OpInfoSequences> read_opinfos(const std::vector<std::string>& files,
                                          const std::string& id, std::int64_t& skipped);

/// Meshes and number of placings, from `draws` on each mesh.
ProofOptions shard_options(std::int64_t draws, std::uint64_t seed);
/// Used by one thread; several may run side by side.
OpProof prove_sharded(const OpInfoSequences& opinfo, const ProofOptions& options);

/// The outcomes of all of them.
struct ShardTable {
  std::vector<OpInfoSequences> opinfos;
  std::vector<OpProof> proofs;  ///< of each
  std::vector<Dims> meshes;
  std::int64_t skipped = 0;
  double seconds = 0;

  bool any_wrong() const;
  /// The share of OpInfos that ran, in percent; as they are, or with the redistributions that
  /// refusals ask for.
  double share_in_every_placement() const;
  double share_as_they_are() const;
  /// Wrong results, refusals with reasons, then the sums.
  std::string text() const;
  Json json() const;
};

}  // namespace shardlab
