// The logs of the classes are replayed together: each cell of the grid plays the log of its class,
// and enters the groups of its first rank for all of its ranks. This is right because ranks of one
// cell do the same in groups that consist of the same cells. A round is over when all cells of the
// group have entered, in any order of cells: collectives of one group are ordered, so that the
// outcome does not depend on the order of replay. Calls that cannot complete at the end are a
// mismatch or a deadlock, judged by the code that judges real ranks (backends/shared/meeting.h).
#include "backends/fake/agreement.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <tuple>

#include "backends/shared/meeting.h"

namespace shardlab::fake {

namespace {

using backends::Call;

constexpr std::int64_t kMostReportedRanks = 4096;
constexpr std::size_t kMostComparedRanks = 256;  ///< pairs of ranks are compared up to here

struct Round {
  std::map<std::size_t, const LoggedCall*> calls;  ///< by cell
  std::vector<std::size_t> waiting;                ///< cells
  bool over = false;
};

/// One group and its ranks.
struct GroupInstance {
  GroupKind kind;
  std::vector<std::size_t> cells;       ///< ascending
  std::vector<std::int64_t> pair = {};  ///< of messages: who sends and receives, of many the first
  bool torn = false;  ///< all entered a round, but their calls do not fit: it ends here
  std::deque<Round> rounds = {};

  Round& round(std::uint64_t sequence) {
    while (rounds.size() <= sequence) rounds.emplace_back();
    return rounds[sequence];
  }
};

// A batch as one rank enters it, not the rank that represents it.
struct MovedBatch {
  MovedBatch(const LoggedCall& logged, std::int64_t group_rank)
      : exchange(logged.exchange), call(CollectiveKind::kBatch) {
    for (SendRecv& part : exchange) part.peer += group_rank - logged.rank;
    part.exchange = exchange;
    call.part = &part;
    call.position = logged.call.position;
    call.op_name = logged.call.op_name;
  }
  std::vector<SendRecv> exchange;
  backends::BatchPart part;
  Call call;
};

struct Spread {
  std::vector<std::int64_t> ranks;
  std::vector<const Call*> calls;
  std::deque<MovedBatch> batches;
};

// The messages of one rank to another, `distance` further on, are those that this one takes, in
// order.
bool passes(const LoggedCall& from, const LoggedCall& to, std::int64_t distance) {
  auto taken = to.exchange.begin();
  const auto takes = [&](const SendRecv& part) {
    return part.receives && part.peer - to.rank == -distance;
  };
  for (const SendRecv& part : from.exchange) {
    if (!part.send.defined() || part.peer - from.rank != distance) continue;
    taken = std::find_if(taken, to.exchange.end(), takes);
    if (taken == to.exchange.end()) return false;
    const TensorMeta& sent = part.send.meta();
    if (sent.dtype != taken->receive.dtype || sent.shape != taken->receive.shape) return false;
    ++taken;
  }
  return std::find_if(taken, to.exchange.end(), takes) == to.exchange.end();
}

// The ranks that cells stand for, in their groups, and whether their calls fit together.
class CellRanks {
 public:
  explicit CellRanks(const RankGrid& grid) : grid_(grid) {}

  std::size_t cell_of(std::int64_t rank) {
    const auto coordinate = grid_.layout().coordinate_of(rank);
    if (coordinate) return grid_.cell_at(*coordinate);
    if (outside_.empty()) {
      for (std::size_t cell = 0; cell < grid_.cell_count(); ++cell) {
        if (grid_.inside(cell)) continue;
        const auto own = grid_.ranks([&](std::size_t other) { return other == cell; });
        for (const std::int64_t other : own) outside_.emplace(other, cell);
      }
    }
    return outside_.at(rank);
  }

  // A rank's group differs from that of another rank of its cell, so one instance represents many
  // groups: the one that holds `rank`.
  std::vector<std::int64_t> group_of(std::int64_t rank, const GroupKind& kind) const {
    if (kind.made >= 0) {
      return grid_.layout().group_ranks(kind.mesh_dims, *grid_.layout().coordinate_of(rank));
    }
    std::vector<std::int64_t> ranks(static_cast<std::size_t>(grid_.world_size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }

  // The sender and the receiver, where `rank` is one of them as its cell is.
  std::vector<std::int64_t> pair_of(std::int64_t rank, const LoggedCall& message) const {
    const auto at = [&](std::int64_t place) -> std::int64_t {
      if (message.group.made < 0) return place;
      return group_of(rank, message.group)[static_cast<std::size_t>(place)];
    };
    const bool sends = message.call.kind == CollectiveKind::kSend;
    if (sends) return {rank, at(message.call.to)};
    return {at(message.call.from), rank};
  }

  // The members of the call of one rank.
  std::vector<std::int64_t> members_of(std::int64_t rank, const LoggedCall& call) const {
    const bool pair = is_message(call.call.kind) && !takes_any(call.call);
    return pair ? pair_of(rank, call) : group_of(rank, call.group);
  }

  // One group of an instance: the one through its first cell's first rank.
  std::vector<std::int64_t> ranks_of(const GroupInstance& group) const {
    if (!group.pair.empty()) return group.pair;
    return group_of(grid_.first_rank(group.cells.front()), group.kind);
  }

  Spread spread(const std::vector<std::int64_t>& ranks, const Round& round) {
    Spread result{ranks, {}, {}};
    for (const std::int64_t rank : ranks) {
      const LoggedCall* logged = call_of(rank, round);
      const auto group_rank = static_cast<std::int64_t>(result.calls.size());
      result.calls.push_back(logged == nullptr ? nullptr : &logged->call);
      if (logged == nullptr || logged->call.kind != CollectiveKind::kBatch) continue;
      result.calls.back() = &result.batches.emplace_back(*logged, group_rank).call;
    }
    return result;
  }

  bool fits(const GroupInstance& group, const Round& round) {
    const Call& first = round.calls.begin()->second->call;
    for (const auto& [cell, call] : round.calls) {
      if (!backends::compatible(first, call->call)) return false;
    }
    if (first.kind == CollectiveKind::kBatch) return exchanges_fit(ranks_of(group), round);
    if (first.kind != CollectiveKind::kAllToAll) return true;
    const std::vector<std::int64_t> ranks = ranks_of(group);
    if (ranks.size() > kMostComparedRanks) return pieces_fit(ranks, round);
    return backends::consistent(spread(ranks, round).calls);
  }

 private:
  const LoggedCall* call_of(std::int64_t rank, const Round& round) {
    const auto call = round.calls.find(cell_of(rank));
    return call == round.calls.end() ? nullptr : call->second;
  }

  // All messages between ranks of two cells have one size.
  bool pieces_fit(const std::vector<std::int64_t>& ranks, const Round& round) {
    std::map<std::size_t, std::vector<std::size_t>> places;  // in the group, by cell
    for (std::size_t i = 0; i < ranks.size(); ++i) places[cell_of(ranks[i])].push_back(i);
    for (const auto& [from_cell, from] : round.calls) {
      for (const auto& [to_cell, to] : round.calls) {
        const Call& a = from->call;
        const Call& b = to->call;
        const std::int64_t sent = a.lengths[places[to_cell].front()];
        const std::int64_t joined = b.concat_lengths()[places[from_cell].front()];
        for (const std::size_t at : places[to_cell]) {
          if (a.lengths[at] != sent) return false;
          if (a.dim != a.concat_dim && b.lengths[at] != sent) return false;
        }
        for (const std::size_t at : places[from_cell]) {
          if (b.concat_lengths()[at] != joined) return false;
        }
        const std::int64_t brought =
            a.dim == a.concat_dim ? sent : a.x->size(static_cast<std::size_t>(a.concat_dim));
        if (brought != joined) return false;
      }
    }
    return true;
  }

  // Each rank checks its own partners only: a message between two is checked from both ends.
  bool exchanges_fit(const std::vector<std::int64_t>& ranks, const Round& round) {
    const auto size = static_cast<std::int64_t>(ranks.size());
    std::vector<const LoggedCall*> calls;
    for (const std::int64_t rank : ranks) calls.push_back(call_of(rank, round));
    for (std::int64_t rank = 0; rank < size; ++rank) {
      const LoggedCall& mine = *calls[static_cast<std::size_t>(rank)];
      for (const SendRecv& part : mine.exchange) {
        const std::int64_t distance = part.peer - mine.rank, peer = rank + distance;
        if (peer < 0 || peer >= size) return false;
        const LoggedCall& theirs = *calls[static_cast<std::size_t>(peer)];
        if (part.send.defined() && !passes(mine, theirs, distance)) return false;
        if (part.receives && !passes(theirs, mine, -distance)) return false;
      }
    }
    return true;
  }

  const RankGrid& grid_;
  std::map<std::int64_t, std::size_t> outside_;
};

class Replay {
 public:
  Replay(const RankGrid& grid, std::span<const ClassLog* const> logs)
      : grid_(grid), ranks_(grid), logs_(logs), cells_(grid.cell_count()) {
    for (std::size_t cell = 0; cell < cells_.size(); ++cell) runnable_.push_back(cell);
  }

  Agreement run() {
    while (!runnable_.empty()) {
      const std::size_t cell = runnable_.front();
      runnable_.pop_front();
      advance(cell);
    }
    look_for_senders();
    if (result_.senders.empty()) judge();
    std::sort(result_.failed_cells.begin(), result_.failed_cells.end());
    for (const CellState& state : cells_) result_.stops.push_back(state.stops_in);
    return std::move(result_);
  }

 private:
  struct CellState {
    std::size_t next = 0;  ///< entry
    RankReport::State state = RankReport::State::kRuns;
    const LoggedCall* waits_in = nullptr;
    std::optional<std::size_t> stops_in;  ///< the same, as its place in the log
    std::deque<std::size_t> sent;         ///< messages, from either side
    std::vector<GroupInstance*> groups;   ///< by channel of its log; null: not looked for
  };

  const ClassLog& log_of(std::size_t cell) const {
    return *logs_[static_cast<std::size_t>(grid_.tag(cell))];
  }

  // Nobody comes further.
  void judge() {
    if (!result_.failed_cells.empty()) return blame_failure();
    look_for_mismatch();
    if (!result_.verdict) look_for_stall();
  }

  void advance(std::size_t cell) {
    CellState& state = cells_[cell];
    const ClassLog& log = log_of(cell);
    for (; state.next < log.entries.size(); ++state.next) {
      const LogEntry& entry = log.entries[state.next];
      const LoggedCall& call = *log.calls[entry.call];
      Round& round = round_of(cell, call);
      if (entry.kind == LogEntry::Kind::kEnters) {
        enter(cell, call, round);
        if (is_message(call.call.kind)) state.sent.push_back(entry.call);
      } else if (!round.over) {
        return wait(cell, entry.call, round);
      }
    }
    // At its end a rank awaits the messages that it has not waited for.
    for (; !log.error && !state.sent.empty(); state.sent.pop_front()) {
      Round& round = round_of(cell, *log.calls[state.sent.front()]);
      if (!round.over) return wait(cell, state.sent.front(), round);
    }
    state.state = log.error ? RankReport::State::kFailed : RankReport::State::kEnded;
    if (log.error) result_.failed_cells.push_back(cell);
  }

  void wait(std::size_t cell, std::size_t call, Round& round) {
    CellState& state = cells_[cell];
    state.state = RankReport::State::kWaits;
    state.waits_in = log_of(cell).calls[call].get();
    state.stops_in = call;
    round.waiting.push_back(cell);
  }

  void enter(std::size_t cell, const LoggedCall& call, Round& round) {
    round.calls.emplace(cell, &call);
    GroupInstance& group = instance_of(cell, call);
    const bool all_here = round.calls.size() == group.cells.size() && !takes_any(call.call);
    if (group.torn || !all_here) return;
    if (!ranks_.fits(group, round)) {
      group.torn = true;
      keep_lowest(mismatch(group, round));
      return;
    }
    round.over = true;
    for (const std::size_t other : round.waiting) {
      cells_[other].state = RankReport::State::kRuns;
      cells_[other].waits_in = nullptr;
      cells_[other].stops_in.reset();
      runnable_.push_back(other);
    }
    round.waiting.clear();
  }

  GroupInstance& instance_of(std::size_t cell, const LoggedCall& call) {
    std::vector<GroupInstance*>& known = cells_[cell].groups;
    if (known.size() <= call.channel) known.resize(call.channel + 1);
    GroupInstance*& found = known[call.channel];
    if (found == nullptr) found = &find_instance(cell, call);
    return *found;
  }
  Round& round_of(std::size_t cell, const LoggedCall& call) {
    return instance_of(cell, call).round(call.sequence);
  }

  GroupInstance& find_instance(std::size_t cell, const LoggedCall& call) {
    if (!is_message(call.call.kind)) return group_through(cell, call.group);
    if (takes_any(call.call)) {
      return add({call.group, group_through(cell, call.group).cells});
    }
    std::vector<std::int64_t> pair = ranks_.pair_of(grid_.first_rank(cell), call);
    const std::size_t from = ranks_.cell_of(pair[0]), to = ranks_.cell_of(pair[1]);
    GroupInstance*& known = ways_[{call.group, from, to, call.call.tag}];
    if (known == nullptr) {
      known = &add({call.group, {from, to}, std::move(pair)});
    }
    return *known;
  }
  GroupInstance& add(GroupInstance group) { return instances_.emplace_back(std::move(group)); }

  GroupInstance& group_through(std::size_t cell, const GroupKind& kind) {
    const auto known = instance_by_cell_.find({cell, kind});
    if (known != instance_by_cell_.end()) return *known->second;
    GroupInstance& group = add({kind, {}});
    if (kind.made < 0) {
      for (std::size_t other = 0; other < grid_.cell_count(); ++other) group.cells.push_back(other);
    } else {
      group.cells = grid_.line(cell, kind.mesh_dims);
    }
    for (const std::size_t other : group.cells) {
      instance_by_cell_.emplace(std::pair(other, kind), &group);
    }
    return group;
  }

  Verdict mismatch(const GroupInstance& group, const Round& round) {
    const LoggedCall& call = *round.calls.begin()->second;
    const Spread all = ranks_.spread(ranks_.ranks_of(group), round);
    const backends::Meeting meeting{all.ranks, call.group_name, call.sequence, all.calls};
    if (static_cast<std::int64_t>(all.ranks.size()) <= kMostReportedRanks) {
      return backends::mismatch(meeting);
    }
    Verdict verdict = backends::mismatch_so_far(meeting);
    for (const std::size_t cell : group.cells) {
      RankReport report{.rank = grid_.first_rank(cell),
                        .state = RankReport::State::kWaits,
                        .alike = grid_.size(cell) - 1};
      backends::describe(meeting, round.calls.at(cell)->call, report);
      verdict.ranks.push_back(std::move(report));
    }
    std::ranges::sort(verdict.ranks, {}, &RankReport::rank);
    return verdict;
  }

  void blame_failure() {
    std::size_t first = result_.failed_cells.front();
    for (const std::size_t cell : result_.failed_cells) {
      if (grid_.first_rank(cell) < grid_.first_rank(first)) first = cell;
    }
    Verdict verdict;
    verdict.kind = VerdictKind::kRankFailed;
    verdict.cause = log_of(first).error->summary();
    std::vector<bool> alike(grid_.cell_count());
    for (const std::size_t cell : result_.failed_cells) {
      if (log_of(cell).error->summary() != verdict.cause) continue;
      alike[cell] = true;
      verdict.ranks.push_back({.rank = grid_.first_rank(cell),
                               .state = RankReport::State::kFailed,
                               .alike = grid_.size(cell) - 1});
    }
    std::ranges::sort(verdict.ranks, {}, &RankReport::rank);
    verdict.culprits = grid_.ranks([&](std::size_t cell) { return alike[cell]; });
    std::ranges::sort(verdict.culprits);
    result_.verdict = std::move(verdict);
  }

  // Reports the mismatch of the lowest rank.
  void keep_lowest(Verdict verdict) {
    if (mismatch_ && mismatch_->culprits.front() <= verdict.culprits.front()) return;
    mismatch_ = std::move(verdict);
  }

  // Calls that cannot meet are a better explanation than ranks that are missing.
  void look_for_mismatch() {
    for (const CellState& state : cells_) {
      if (state.waits_in == nullptr) continue;
      const auto cell = static_cast<std::size_t>(&state - cells_.data());
      const Round& round = round_of(cell, *state.waits_in);
      if (instance_of(cell, *state.waits_in).torn) continue;
      const Spread all =
          ranks_.spread(ranks_.members_of(grid_.first_rank(cell), *state.waits_in), round);
      const backends::Meeting meeting{all.ranks, state.waits_in->group_name,
                                      state.waits_in->sequence, all.calls};
      if (backends::torn(meeting)) keep_lowest(backends::mismatch_so_far(meeting));
    }
    if (!mismatch_) return;
    result_.verdict = std::move(mismatch_);
    if (result_.verdict->ranks.empty()) result_.verdict->ranks = reports();
  }

  RankReport report_of(std::int64_t rank, std::size_t cell) {
    RankReport report{.rank = rank, .state = cells_[cell].state};
    const LoggedCall* call = cells_[cell].waits_in;
    if (call == nullptr) return report;
    const Round& round = round_of(cell, *call);
    const Spread all = ranks_.spread(ranks_.members_of(rank, *call), round);
    backends::describe({all.ranks, call->group_name, call->sequence, all.calls}, call->call,
                       report);
    return report;
  }

  // A message that nobody has taken waits for this cell, which takes one from any.
  void look_for_senders() {
    for (const auto& [way, group] : ways_) {
      const auto& [kind, from, to, tag] = way;
      const LoggedCall* taker = cells_[to].waits_in;
      if (taker == nullptr || !takes_any(taker->call)) continue;
      if (taker->group != kind || taker->call.tag != tag) continue;
      for (const Round& round : group->rounds) {
        if (round.calls.contains(to)) continue;
        const std::int64_t sender = round.calls.at(from)->rank;
        const auto first = result_.senders.try_emplace(to, sender).first;
        first->second = std::min(first->second, sender);
        break;
      }
    }
  }

  bool each_rank_is_reported() const { return grid_.world_size() <= kMostReportedRanks; }

  // The state of every rank, or of one of each cell.
  std::vector<RankReport> reports() {
    std::vector<RankReport> result;
    if (each_rank_is_reported()) {
      for (std::int64_t rank = 0; rank < grid_.world_size(); ++rank) {
        result.push_back(report_of(rank, ranks_.cell_of(rank)));
      }
      return result;
    }
    for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
      result.push_back(report_of(grid_.first_rank(cell), cell));
      result.back().alike = grid_.size(cell) - 1;
    }
    std::ranges::sort(result, {}, &RankReport::rank);
    return result;
  }

  void look_for_stall() {
    const bool stalled = std::ranges::any_of(
        cells_, [](const CellState& state) { return state.state == RankReport::State::kWaits; });
    if (!stalled) return;
    Verdict verdict;
    verdict.kind = VerdictKind::kDeadlock;
    verdict.ranks = reports();
    verdict.culprits = each_rank_is_reported() ? backends::missed(verdict.ranks) : missed_cells();
    if (each_rank_is_reported()) verdict.cause = backends::circle_of(verdict.ranks);
    result_.verdict = std::move(verdict);
  }

  // All ranks of awaited cells, those that have ended if there are any.
  std::vector<std::int64_t> missed_cells() {
    std::vector<std::size_t> awaited;
    for (const GroupInstance& group : instances_) {
      for (const Round& round : group.rounds) {
        if (round.over || round.waiting.empty()) continue;
        for (const std::size_t cell : group.cells) {
          if (!round.calls.contains(cell)) awaited.push_back(cell);
        }
      }
    }
    const auto ended = [&](std::size_t cell) {
      return cells_[cell].state == RankReport::State::kEnded;
    };
    const bool any_ended = std::ranges::any_of(awaited, ended);
    std::vector<bool> named(grid_.cell_count());
    for (const std::size_t cell : awaited) named[cell] = !any_ended || ended(cell);
    return grid_.ranks([&](std::size_t cell) { return named[cell]; });
  }

  const RankGrid& grid_;
  CellRanks ranks_;
  const std::span<const ClassLog* const> logs_;
  std::vector<CellState> cells_;
  std::deque<std::size_t> runnable_;
  std::deque<GroupInstance> instances_;
  std::map<std::pair<std::size_t, GroupKind>, GroupInstance*> instance_by_cell_;
  std::map<std::tuple<GroupKind, std::size_t, std::size_t, std::int32_t>, GroupInstance*> ways_;
  std::optional<Verdict> mismatch_;
  Agreement result_;
};

}  // namespace

Agreement replay(const RankGrid& grid, std::span<const ClassLog* const> logs) {
  return Replay(grid, logs).run();
}

}  // namespace shardlab::fake
