// communicator.h - the door of the shape-only backend: logs the calls of a class of ranks and
// answers with shapes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "backends/fake/class_log.h"
#include "backends/fake/rank_grid.h"
#include "comm/communicator.h"

namespace shardlab::fake {

/// A wait that never ends, known from an earlier run of the same class.
struct Stop {
  std::size_t call = 0;  ///< in the log
  Error error;           ///< the error that the rank throws there
};

/// The state that the communicators of one class share. Outlives them.
struct ClassContext {
  const MeshLayout* layout = nullptr;
  std::int64_t world_size = 1;
  std::int64_t rank = 0;          ///< global; represents its class
  std::shared_ptr<ClassLog> log;  ///< pending results hold it, too
  LengthsTable* lengths = nullptr;
  Ref<Storage> nothing;              ///< the target of noted tensors; counted on no rank
  std::shared_ptr<const Stop> stop;  ///< null: nothing stops it
  /// The senders of messages that it takes from any rank, in order, as far as earlier runs have
  /// found them: places in the group. At the first one behind these the run ends, and its log is
  /// open.
  std::span<const std::int64_t> senders;
  /// Ranks whose answer differs from that of `rank` are of another class.
  std::function<void(const std::function<std::uint64_t(std::int64_t rank)>& answer)> ask;
  /// A mesh of the program whose groups are no lines of `layout`: the run has failed for it.
  const MeshLayout* lacks = nullptr;
};

/// The refusal of a mesh that is no view of the ranks of `whole`, in the same order.
Error no_view(const MeshLayout& mesh, const MeshLayout& whole);

/// All ranks of the world. Groups are made with along(); split and all_gather_bytes, whose results
/// depend on other ranks' data, fail with Unsupported, and so does a batch without
/// compare_answers().
std::unique_ptr<Communicator> make_world_communicator(ClassContext& context);

}  // namespace shardlab::fake
