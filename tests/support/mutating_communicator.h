// mutating_communicator.h - a communicator that gives one wrong result, which the verifier must
// notice (mutation tests). A wrapper around any backend's communicator.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "comm/forwarding_communicator.h"

namespace shardlab {

/// Mistakes as they are made in collectives or in the arithmetic around them.
enum class MutationKind : std::uint8_t {
  kDropReduction,  ///< a reduction gives this rank's own term, or its slice of it
  kDivideTwice,    ///< the result of a reduction is divided by the group size once more
  kShiftChunk,     ///< the result is rotated by one element along the tensor dim cut or gathered
  kSwapRanks,      ///< the first and the last piece that is not empty change places
  kReduceTwice,    ///< the result of a reduction is reduced once more, as if it were a term
  kForeignPiece,  ///< the result is that of the next rank of the group, where it has the same shape
};
inline constexpr MutationKind kMutationKinds[] = {
    MutationKind::kDropReduction, MutationKind::kDivideTwice, MutationKind::kShiftChunk,
    MutationKind::kSwapRanks,     MutationKind::kReduceTwice, MutationKind::kForeignPiece};
/// "drop reduction", ...
std::string_view to_string(MutationKind kind);
/// Whether the mutation can change the result of such a collective.
bool applies(MutationKind mutation, CollectiveKind collective);

/// One wrong result on each rank it concerns.
struct Mutation {
  MutationKind kind = MutationKind::kDropReduction;
  std::int64_t index = 0;            ///< of the rank's observed collectives, over all its groups
  std::optional<std::int64_t> rank;  ///< global; none: every rank
};

/// The effect of a mutation, on all ranks together.
struct MutationEffect {
  std::atomic<std::int64_t> changed{0};  ///< results whose bytes were changed
};

/// For WorldOptions::communicator: wraps a rank's communicator and all that are split off it. Only
/// collectives entered while the rank is observed, in groups of more than one rank, are counted. A
/// mutated call waits for its result.
CommunicatorDecorator plant(const Mutation& mutation, std::shared_ptr<MutationEffect> effect);

}  // namespace shardlab
