// played_graph.h - the ops of a recording as a graph, which the player of graphs runs on every rank
// (trace/replay.h). Moves become their events, collectives of PyTorch's libraries the collectives
// and ops that they are made of.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "sim/recording/recorded_program.h"
#include "trace/graph.h"

namespace shardlab {

/// Values of the recording keep their numbers; others have numbers behind these.
struct PlayedGraph {
  ProgramGraph graph;
  std::vector<std::size_t> event_of;  ///< by node: the index of its event; their number: of none
  std::vector<std::size_t> end_of;    ///< by event: one past its last node
  std::vector<bool> missing;          ///< by event: an op that does not exist here
  std::map<std::size_t, std::size_t> messages;  ///< events: the send of each receive
  /// Messages and collectives to which not all of their ranks come: a replay would wait for ever.
  std::set<std::size_t> alone;
  std::set<std::size_t> edits;                  ///< nodes that no event of the recording has
  std::map<std::size_t, std::size_t> meetings;  ///< of collectives of one rank: as meeting()
  /// Collectives that moved what is behind a tensor's memory: by meeting() the event that did.
  std::map<std::size_t, std::size_t> unknown;

  /// The first event of the collective that the event is a rank's part of.
  std::size_t meeting(std::size_t event) const {
    const auto found = meetings.find(event);
    return found == meetings.end() ? event : found->second;
  }

  /// No later node of its event runs on the rank.
  bool last_on(std::size_t node, std::int32_t rank) const;
};

/// The events whose values somebody looks at, besides ops and checks.
enum class Looks : std::uint8_t {
  kChecks,
  kAll,  ///< results of calls and modules, too: for a comparison of two recordings
};

/// Sender, receiver, tag and group of a message.
using MessageRoute = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int32_t>;
MessageRoute route_of(const RecordedProgram& program, const RecordedEvent& event);

/// A change of values after an event.
struct PlayedEdit {
  std::size_t event = 0;  ///< its index
  std::int32_t value = -1;
  std::vector<std::vector<std::int64_t>> groups;  ///< it is reduced over these; empty: it is not
  bool instead = false;      ///< these are the groups of the event's own collectives
  std::vector<double> less;  ///< row-major elements of the last dims, taken away `times` times
  double times = 0;
  double factor = 1;                ///< then it is multiplied
  std::optional<ReduceOp> op = {};  ///< of this reduction, or else of the event's collectives
};

PlayedGraph played_graph(const RecordedProgram& program, Looks looks = Looks::kChecks,
                         const std::vector<PlayedEdit>& edits = {});

/// A call under loss_parallel() of an op that has collectives of its own there.
bool of_loss_parallel(const RecordedEvent& event);
/// The event is played: an op, a collective, a move.
bool is_played(const RecordedProgram& program, const RecordedEvent& event);

}  // namespace shardlab
