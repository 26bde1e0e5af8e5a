// Ranks that can go on are in a list of work; a rank that waits comes back to it when an operation
// of its own is complete.
#include "sim/prove/steps.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "backends/shared/waits.h"

namespace shardlab {

namespace {

using Id = Traffic::Id;

class StepRun {
 public:
  // `met`: if there is one, `program` is its own.
  StepRun(const RankSteps& program, const StepTransport& options, MetRun* met)
      : program_(program),
        met_(met),
        queues_(options.transport >= Transport::kPairQueue),
        blocks_(options.transport == Transport::kBlocking),
        traffic_(options.transport, options.buffers),
        ranks_(program.ranks.size()) {
    for (const auto& group : program.groups) traffic_.add_group(group);
    if (options.lazy_groups) traffic_.make_lazily();
  }

  StepsOutcome run() {
    std::vector<std::int32_t> work;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      work.push_back(static_cast<std::int32_t>(rank));
    }
    do {
      while (!work.empty()) {
        const std::int32_t rank = work.back();
        work.pop_back();
        advance(rank);
        for (const Id id : traffic_.take_completed()) {
          const std::int32_t owner = traffic_.rank_of(id);
          if (state(owner).waits_for == id) work.push_back(owner);
        }
      }
    } while (met_ != nullptr && choose(work));
    return outcome();
  }

 private:
  struct State {
    std::int32_t next = 0;
    std::vector<Id> first;  ///< of the steps so far: number of the first operation
    Id waits_for = -1;
    std::int32_t waits_in = -1;    ///< the step
    std::size_t synchronized = 0;  ///< operations of these steps are complete
    bool chooses = false;          ///< the next step is a receive from any rank
    std::int32_t chosen = -1;      ///< the last of these steps that has a sender
  };
  State& state(std::int32_t rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  const std::vector<RankStep>& steps(std::int32_t rank) const {
    return program_.ranks[static_cast<std::size_t>(rank)];
  }
  const RankStep& step(std::int32_t rank, std::int32_t index) const {
    return program_.at(rank, index);
  }

  void note(Id id, std::int32_t posted_by) {
    posted_by_.resize(static_cast<std::size_t>(id) + 1);
    posted_by_.back() = posted_by;
  }
  std::int32_t posted_by(Id id) const { return posted_by_[static_cast<std::size_t>(id)]; }

  // Whether all that a step has posted is complete; else the rank waits.
  bool complete(std::int32_t rank, std::int32_t index, std::int32_t waits_in) {
    const Id first = state(rank).first[static_cast<std::size_t>(index)];
    for (std::size_t i = 0; i < step(rank, index).posts.size(); ++i) {
      const Id id = first + static_cast<Id>(i);
      if (traffic_.complete(id)) continue;
      state(rank).waits_for = id;
      state(rank).waits_in = waits_in;
      return false;
    }
    return true;
  }

  bool has_needs(std::int32_t rank, std::int32_t index) {
    const RankStep& one = step(rank, index);
    for (const std::int32_t need : one.needs) {
      if (!complete(rank, need, index)) return false;
    }
    if (!one.synchronizes || !queues_) return true;
    State& own = state(rank);
    for (; own.synchronized < static_cast<std::size_t>(index); ++own.synchronized) {
      if (!complete(rank, static_cast<std::int32_t>(own.synchronized), index)) return false;
    }
    return true;
  }

  bool has_communicators(std::int32_t rank, std::int32_t index) {
    for (;;) {
      const Id made = traffic_.creation(rank, step(rank, index).posts);
      if (made < 0) return true;
      note(made, index);
      if (traffic_.complete(made)) continue;
      state(rank).waits_for = made;
      state(rank).waits_in = index;
      return false;
    }
  }

  // Gives one of the receives from any rank its sender. If no message is there for any of them,
  // they wait for those that they met in the program.
  bool choose(std::vector<std::int32_t>& work) {
    std::vector<std::pair<std::int32_t, std::int32_t>> ways;
    for (std::int32_t rank = 0; rank < std::ssize(ranks_); ++rank) {
      if (!state(rank).chooses) continue;
      const Operation& what = step(rank, state(rank).next).posts[0];
      for (std::int32_t sender = 0; sender < std::ssize(ranks_); ++sender) {
        if (sent_[{sender, rank, what.group, what.tag}] > 0) ways.emplace_back(rank, sender);
      }
      work.push_back(rank);
    }
    const auto take = [&](std::int32_t rank) {
      state(rank).chooses = false;
      state(rank).chosen = state(rank).next;
    };
    if (ways.empty()) {
      std::ranges::for_each(work, take);
      return !work.empty();
    }
    if (met_->way.size() == met_->ways.size()) met_->way.push_back(0);
    const auto [rank, sender] = ways[met_->way[met_->ways.size()]];
    met_->ways.push_back(ways.size());
    met_->met.emplace_back(rank, sender);
    auto& steps = met_->steps.ranks[static_cast<std::size_t>(rank)];
    steps[static_cast<std::size_t>(state(rank).next)].posts[0].peer = sender;
    take(rank);
    work = {rank};
    return true;
  }

  // Messages that are posted, and that no receive was posted for.
  void note_messages(std::int32_t rank, const RankStep& step) {
    for (const Operation& what : step.posts) {
      if (what.kind == Operation::Kind::kSend) ++sent_[{rank, what.peer, what.group, what.tag}];
      if (what.kind == Operation::Kind::kReceive) --sent_[{what.peer, rank, what.group, what.tag}];
    }
  }

  void advance(std::int32_t rank) {
    State& own = state(rank);
    if (own.waits_for >= 0 && !traffic_.complete(own.waits_for)) return;
    own.waits_for = -1;
    const auto count = static_cast<std::int32_t>(steps(rank).size());
    for (;; ++own.next) {
      if (blocks_ && own.next > 0 && !complete(rank, own.next - 1, own.next - 1)) return;
      if (own.next == count || !has_needs(rank, own.next)) return;
      const RankStep& one = step(rank, own.next);
      own.chooses = met_ != nullptr && one.any && own.chosen != own.next;
      if (own.chooses || !has_communicators(rank, own.next)) return;
      if (met_ != nullptr) note_messages(rank, one);
      own.first.push_back(one.posts.empty() ? -1 : traffic_.post(rank, one.posts));
      for (std::size_t i = 0; i < one.posts.size(); ++i) {
        note(own.first.back() + static_cast<Id>(i), own.next);
      }
    }
  }

  // The step with which the rank would post what is missing; -1: it never does.
  std::int32_t step_to_come(const Blocker& blocker) {
    std::int64_t further = blocker.further;
    const std::vector<RankStep>& all = steps(blocker.rank);
    for (auto i = static_cast<std::size_t>(state(blocker.rank).next); i < all.size(); ++i) {
      further -= std::ranges::count(all[i].posts, blocker.missing);
      if (further <= 0) return static_cast<std::int32_t>(i);
    }
    return -1;
  }

  // It waits, and what it would do next is not known.
  bool may_come(std::int32_t rank) { return program_.cut_short && state(rank).waits_for >= 0; }

  WaitLink link(Id id) {
    const Blocker blocker = traffic_.blocker(id);
    WaitLink result{.rank = blocker.rank, .missing = blocker.missing};
    if (blocker.operation >= 0) {
      result.step = posted_by(blocker.operation);
      result.before = posted_by(blocker.behind);
      result.in_queue = true;
      return result;
    }
    const State& other = state(blocker.rank);
    result.step = other.waits_for < 0 ? -1 : other.waits_in;
    result.before = step_to_come(blocker);
    result.creates = is_creation(id);
    result.begins = result.before < 0 && may_come(blocker.rank);
    return result;
  }

  Id cause(Id id) {
    const Blocker blocker = traffic_.blocker(id);
    if (blocker.operation >= 0) return blocker.operation;
    const bool comes = step_to_come(blocker) >= 0 || is_creation(id) || may_come(blocker.rank);
    return comes ? state(blocker.rank).waits_for : -1;
  }

  // Others enter it with a step of theirs, and not as an operation of it.
  bool is_creation(Id id) {
    return traffic_.operation(id).group >= static_cast<std::int32_t>(program_.groups.size());
  }

  StepsOutcome outcome() {
    StepsOutcome result;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const State& own = ranks_[rank];
      if (own.waits_for < 0) continue;
      result.stuck.push_back(
          {static_cast<std::int32_t>(rank), own.waits_in, traffic_.operation(own.waits_for)});
    }
    // A circle explains more than a rank that has ended.
    backends::Walk best;
    for (const StuckRank& one : result.stuck) {
      const auto start = static_cast<std::size_t>(state(one.rank).waits_for);
      backends::Walk walk =
          backends::walk_from(start, [&](std::size_t id) { return cause(static_cast<Id>(id)); });
      if (best.nodes.empty() || walk.circle) best = std::move(walk);
      if (best.circle) break;
    }
    if (best.nodes.empty()) return result;
    if (!best.circle) {
      const StuckRank& first = result.stuck.front();
      result.chain.push_back(
          {.rank = first.rank, .step = first.step, .begins = true, .missing = {}});
    }
    for (const std::size_t id : best.nodes) result.chain.push_back(link(static_cast<Id>(id)));
    const auto lowest = std::ranges::min_element(result.chain, {}, &WaitLink::rank);
    if (best.circle) std::rotate(result.chain.begin(), lowest, result.chain.end());
    return result;
  }

  const RankSteps& program_;
  MetRun* const met_;
  // Open messages from a sender to a receiver, under a group and a tag.
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t, std::int32_t>, int> sent_;
  const bool queues_, blocks_;
  Traffic traffic_;
  std::vector<State> ranks_;
  std::vector<std::int32_t> posted_by_;
};

}  // namespace

std::vector<WrongMessage> wrong_messages(const RankSteps& program) {
  // Sender, receiver, group, tag; what is sent, and what is to be received.
  using Way = std::tuple<std::int32_t, std::int32_t, std::int32_t, std::int32_t>;
  std::map<Way, std::array<std::vector<std::string>, 2>> ways;
  for (std::int32_t rank = 0; const std::vector<RankStep>& steps : program.ranks) {
    for (const RankStep& step : steps) {
      for (std::size_t i = 0; i < step.labels.size(); ++i) {
        const auto& [kind, group, peer, tag] = step.posts[i];
        if (kind == Operation::Kind::kCollective) continue;
        const bool sends = kind == Operation::Kind::kSend;
        ways[{sends ? rank : peer, sends ? peer : rank, group, tag}][sends ? 0 : 1].push_back(
            step.labels[i]);
      }
    }
    ++rank;
  }
  std::vector<WrongMessage> wrong;
  for (const auto& [way, sides] : ways) {
    const auto& [sent, received] = sides;
    for (std::size_t k = 0; k < std::min(sent.size(), received.size()); ++k) {
      if (sent[k].empty() || received[k].empty() || sent[k] == received[k]) continue;
      wrong.push_back(
          {std::get<0>(way), std::get<1>(way), static_cast<std::int64_t>(k), sent[k], received[k]});
    }
  }
  return wrong;
}

StepsOutcome run_steps(const RankSteps& program, const StepTransport& options) {
  return StepRun(program, options, nullptr).run();
}

MetRun meet_steps(RankSteps program, const StepTransport& options, std::vector<std::size_t> way) {
  MetRun met{.ways = {}, .way = std::move(way), .steps = std::move(program)};
  met.outcome = StepRun(met.steps, options, &met).run();
  std::ranges::stable_sort(met.met, {}, [](const auto& one) { return one.first; });
  return met;
}

// A program that ends with some number ends with every larger one.
std::optional<std::int64_t> least_buffers(const RankSteps& program) {
  std::int64_t most = 0;
  for (const auto& rank : program.ranks) most += static_cast<std::int64_t>(rank.size());
  const auto ends = [&](std::int64_t buffers) {
    return run_steps(program, {.transport = Transport::kBlocking, .buffers = buffers}).ends();
  };
  if (!ends(most)) return std::nullopt;
  std::int64_t low = 0, high = 1;
  while (!ends(high)) high *= 2;
  if (ends(0)) return 0;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (ends(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace shardlab
