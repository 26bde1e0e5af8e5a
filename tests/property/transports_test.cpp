// Drawn programs of up to four ranks against every interleaving of their steps and completions, on
// each transport: one end each, the verdict of run_steps, and the order of transports. The
// enumeration knows nothing of Traffic: it applies the definitions of a transport to whole states.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "sim/prove/promise.h"
#include "sim/prove/steps.h"

using namespace shardlab;

namespace {

using Kind = Operation::Kind;

// The largest number of states of a program; others are drawn again.
constexpr std::size_t kMostStates = 30'000;

class EveryInterleaving {
 public:
  EveryInterleaving(const RankSteps& program, Transport transport, std::int64_t buffers = 0)
      : program_(program), transport_(transport), buffers_(buffers) {
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
      for (std::size_t step = 0; step < program.ranks[rank].size(); ++step) {
        for (const Operation& what : program.ranks[rank][step].posts) {
          all_.push_back({what, rank, step, 0});
        }
      }
    }
    std::map<std::tuple<int, std::size_t, std::int32_t, std::int32_t, std::int32_t>, std::size_t>
        counts;
    for (One& one : all_) {
      one.place = counts[{static_cast<int>(one.what.kind), one.rank, one.what.group, one.what.peer,
                          one.what.tag}]++;
    }
  }

  /// Whether all maximal runs end; none: too many states, or two different ends.
  std::optional<bool> ends() {
    State start;
    start.next.resize(program_.ranks.size());
    start.complete.resize(all_.size());
    std::vector<State> open = {start};
    seen_.insert(start);
    std::set<State> last;
    while (!open.empty()) {
      const State state = open.back();
      open.pop_back();
      const std::vector<State> further = successors(state);
      if (further.empty()) last.insert(state);
      for (const State& next : further) {
        if (seen_.insert(next).second) open.push_back(next);
      }
      if (seen_.size() > kMostStates) return std::nullopt;
    }
    CHECK(last.size() == 1);
    return is_end(*last.begin());
  }
  std::size_t states() const { return seen_.size(); }

 private:
  struct One {
    Operation what;
    std::size_t rank, step, place;
  };
  struct State {
    std::vector<std::size_t> next;
    std::vector<bool> complete;
    auto operator<=>(const State&) const = default;
  };

  bool queues() const {
    return transport_ == Transport::kPairQueue || transport_ == Transport::kGroupQueue ||
           transport_ == Transport::kOneQueue;
  }
  bool posted(const State& state, const One& one) const { return one.step < state.next[one.rank]; }

  bool in_one_queue(const One& a, const One& b) const {
    if (a.rank != b.rank || transport_ < Transport::kPairQueue) return false;
    const bool collectives = a.what.kind == Kind::kCollective && b.what.kind == Kind::kCollective;
    if (transport_ == Transport::kBlocking) return collectives && a.step == b.step;
    if (transport_ == Transport::kOneQueue) return true;
    if (a.what.group != b.what.group) return false;
    if (transport_ == Transport::kGroupQueue) return true;
    return a.what.kind != Kind::kCollective && b.what.kind != Kind::kCollective &&
           a.what.peer == b.what.peer;
  }

  bool at_turn(const State& state, const One& one) const {
    if (!posted(state, one)) return false;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const One& other = all_[i];
      if (&other == &one) break;
      if (state.complete[i] || !in_one_queue(other, one)) continue;
      const bool beside = other.step == one.step && (other.what.kind != Kind::kCollective ||
                                                     one.what.kind != Kind::kCollective);
      if (!beside) return false;
    }
    return true;
  }

  // All parts of the collective, or both sides of the message; empty: some are not in the program.
  std::vector<std::size_t> together(const One& one) const {
    std::vector<std::size_t> parts;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const One& other = all_[i];
      if (other.what.group != one.what.group || other.place != one.place) continue;
      const bool collective = one.what.kind == Kind::kCollective;
      if (collective && other.what.kind == Kind::kCollective) parts.push_back(i);
      if (collective || other.what.kind == Kind::kCollective || other.what.tag != one.what.tag) {
        continue;
      }
      const bool mine = other.rank == one.rank && other.what.kind == one.what.kind &&
                        other.what.peer == one.what.peer;
      const bool partner = other.what.kind != one.what.kind &&
                           static_cast<std::size_t>(other.what.peer) == one.rank &&
                           static_cast<std::size_t>(one.what.peer) == other.rank;
      if (mine || partner) parts.push_back(i);
    }
    const std::size_t wanted =
        one.what.kind == Kind::kCollective
            ? program_.groups[static_cast<std::size_t>(one.what.group)].size()
            : 2;
    return parts.size() == wanted ? parts : std::vector<std::size_t>{};
  }

  // A send that has a buffer, or whose buffer the receiver has freed.
  bool has_buffer(const State& state, const One& one) const {
    if (transport_ == Transport::kBuffered) return true;
    std::int64_t received = 0;
    for (const One& other : all_) {
      const bool takes = other.what.kind == Kind::kReceive && other.what.tag == one.what.tag &&
                         other.what.group == one.what.group &&
                         static_cast<std::size_t>(other.what.peer) == one.rank &&
                         other.rank == static_cast<std::size_t>(one.what.peer);
      if (takes && posted(state, other)) ++received;
    }
    return static_cast<std::int64_t>(one.place) < received + buffers_;
  }

  bool completes(const State& state, const One& one) const {
    if (!posted(state, one)) return false;
    const bool sends = one.what.kind == Kind::kSend;
    if (!queues() && sends) return has_buffer(state, one);
    const std::vector<std::size_t> parts = together(one);
    return !parts.empty() && std::ranges::all_of(parts, [&](std::size_t part) {
      return state.complete[part] || at_turn(state, all_[part]);
    });
  }

  bool step_complete(const State& state, std::size_t rank, std::size_t step) const {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].rank == rank && all_[i].step == step && !state.complete[i]) return false;
    }
    return true;
  }

  std::vector<State> successors(const State& state) const {
    std::vector<State> result;
    for (std::size_t rank = 0; rank < state.next.size(); ++rank) {
      const std::size_t at = state.next[rank];
      if (at == program_.ranks[rank].size()) continue;
      const RankStep& step = program_.ranks[rank][at];
      bool goes =
          transport_ != Transport::kBlocking || at == 0 || step_complete(state, rank, at - 1);
      for (const std::int32_t need : step.needs) {
        goes = goes && step_complete(state, rank, static_cast<std::size_t>(need));
      }
      for (std::size_t i = 0; step.synchronizes && queues_host() && i < at; ++i) {
        goes = goes && step_complete(state, rank, i);
      }
      if (!goes) continue;
      result.push_back(state);
      ++result.back().next[rank];
    }
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (state.complete[i] || !completes(state, all_[i])) continue;
      result.push_back(state);
      const bool alone = !queues() && all_[i].what.kind != Kind::kCollective;
      for (const std::size_t part : together(all_[i])) {
        if (!alone) result.back().complete[part] = true;
      }
      result.back().complete[i] = true;
    }
    return result;
  }
  bool queues_host() const { return queues() || transport_ == Transport::kBlocking; }

  bool is_end(const State& state) const {
    for (std::size_t rank = 0; rank < state.next.size(); ++rank) {
      const std::size_t steps = program_.ranks[rank].size();
      if (state.next[rank] != steps) return false;
      const bool waits = transport_ == Transport::kBlocking && steps > 0;
      if (waits && !step_complete(state, rank, steps - 1)) return false;
    }
    return true;
  }

  const RankSteps& program_;
  const Transport transport_;
  const std::int64_t buffers_;
  std::vector<One> all_;
  std::set<State> seen_;
};

class ProgramDraw {
 public:
  explicit ProgramDraw(std::uint32_t seed) : random_(seed) {}

  // Calls that meet, in one order for all ranks, then some of the order and the waits changed.
  RankSteps program() {
    RankSteps result;
    const int ranks = number(2, 4);
    std::vector<std::int64_t> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(rank);
    result.groups = {all};
    for (int i = number(0, 2); i > 0; --i) {
      std::vector<std::int64_t> some = all;
      std::ranges::shuffle(some, random_);
      some.resize(static_cast<std::size_t>(number(2, ranks)));
      std::ranges::sort(some);
      result.groups.push_back(some);
    }
    std::vector<std::vector<Operation>> posts(all.size());
    for (int i = number(2, 5); i > 0; --i) add_meeting(result, posts);
    for (std::vector<Operation>& own : posts) result.ranks.push_back(steps_of(own));
    return result;
  }

 private:
  int number(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(int percent) { return number(1, 100) <= percent; }

  void add_meeting(const RankSteps& program, std::vector<std::vector<Operation>>& posts) {
    const int ranks = static_cast<int>(posts.size());
    const auto group =
        static_cast<std::int32_t>(number(0, static_cast<int>(program.groups.size()) - 1));
    if (chance(35)) {
      for (const std::int64_t rank : program.groups[static_cast<std::size_t>(group)]) {
        if (!chance(3)) posts[static_cast<std::size_t>(rank)].push_back({.group = group});
      }
      return;
    }
    const std::int32_t from = number(0, ranks - 1);
    const std::int32_t to = (from + number(1, ranks - 1)) % ranks;
    const std::int32_t tag = chance(20) ? 1 : 0;
    const auto side = [&](Kind kind, std::int32_t rank, std::int32_t peer) {
      if (chance(3)) return;
      posts[static_cast<std::size_t>(rank)].push_back(
          {.kind = kind, .group = 0, .peer = peer, .tag = tag});
    };
    side(Kind::kSend, from, to);
    side(Kind::kReceive, to, from);
  }

  std::vector<RankStep> steps_of(std::vector<Operation> own) {
    for (std::size_t i = 1; i < own.size(); ++i) {
      if (chance(25)) std::swap(own[i], own[i - 1]);
    }
    std::vector<RankStep> steps;
    std::vector<std::int32_t> pending;
    for (std::size_t i = 0; i < own.size();) {
      RankStep post;
      for (int batch = chance(25) ? number(1, 3) : 1; batch > 0 && i < own.size(); --batch) {
        post.posts.push_back(own[i++]);
      }
      pending.push_back(static_cast<std::int32_t>(steps.size()));
      steps.push_back(post);
      if (chance(5)) steps.push_back({.needs = {}, .posts = {}, .synchronizes = true});
      if (!chance(50)) continue;
      std::ranges::shuffle(pending, random_);
      steps.push_back({.needs = {pending.back()}, .posts = {}});
      pending.pop_back();
    }
    for (const std::int32_t one : pending) steps.push_back({.needs = {one}, .posts = {}});
    return steps;
  }

  std::mt19937 random_;
};

// Messages alone, of which some receives take any sender: every order of steps, every choice.
class EveryMeeting {
 public:
  EveryMeeting(const RankSteps& program, Transport transport)
      : program_(program), transport_(transport) {}

  /// Whether some run cannot go on before its end.
  bool hangs() {
    State start{std::vector<std::size_t>(program_.ranks.size()), {}};
    std::vector<State> open = {start};
    std::set<State> seen = {start};
    bool hangs = false;
    while (!open.empty()) {
      const State state = open.back();
      open.pop_back();
      bool last = true, ended = true;
      for (std::size_t rank = 0; rank < state.next.size(); ++rank) {
        const std::size_t at = state.next[rank], steps = program_.ranks[rank].size();
        const bool waits = transport_ == Transport::kBlocking && at > 0;
        const bool goes = !waits || complete(state, rank, at - 1);
        ended = ended && goes && at == steps;
        if (!goes || at == steps) continue;
        for (const State& further : steps_from(state, rank)) {
          last = false;
          if (seen.insert(further).second) open.push_back(further);
        }
      }
      hangs = hangs || (last && !ended);
    }
    return hangs;
  }

 private:
  struct State {
    std::vector<std::size_t> next;
    std::map<std::pair<std::size_t, std::size_t>, std::int32_t> met;  // by rank and step
    auto operator<=>(const State&) const = default;
  };

  std::int32_t peer(const State& state, std::size_t rank, std::size_t step) const {
    const auto found = state.met.find({rank, step});
    return found == state.met.end() ? program_.ranks[rank][step].posts[0].peer : found->second;
  }
  // Those that a rank has posted to or from a peer, among its first steps.
  std::size_t posted(const State& state, std::size_t rank, Kind kind, std::int32_t with,
                     std::size_t end) const {
    std::size_t count = 0;
    for (std::size_t step = 0; step < end; ++step) {
      const RankStep& one = program_.ranks[rank][step];
      const bool is_one = !one.posts.empty() && one.posts[0].kind == kind;
      count += is_one && peer(state, rank, step) == with ? 1 : 0;
    }
    return count;
  }
  bool complete(const State& state, std::size_t rank, std::size_t step) const {
    if (program_.ranks[rank][step].posts.empty()) return true;
    const Kind kind = program_.ranks[rank][step].posts[0].kind;
    if (kind == Kind::kSend && transport_ == Transport::kBuffered) return true;
    const std::int32_t other = peer(state, rank, step);
    const Kind theirs = kind == Kind::kSend ? Kind::kReceive : Kind::kSend;
    const auto index = static_cast<std::size_t>(other);
    return posted(state, index, theirs, static_cast<std::int32_t>(rank), state.next[index]) >=
           posted(state, rank, kind, other, step + 1);
  }
  std::vector<State> steps_from(const State& state, std::size_t rank) const {
    const std::size_t at = state.next[rank];
    const RankStep& step = program_.ranks[rank][at];
    State further = state;
    ++further.next[rank];
    for (const std::int32_t need : step.needs) {
      if (!complete(state, rank, static_cast<std::size_t>(need))) return {};
    }
    if (!step.any) return {further};
    std::vector<State> all;
    for (std::size_t sender = 0; sender < state.next.size(); ++sender) {
      const auto own = static_cast<std::int32_t>(rank), other = static_cast<std::int32_t>(sender);
      if (posted(state, sender, Kind::kSend, own, state.next[sender]) <=
          posted(state, rank, Kind::kReceive, other, at)) {
        continue;
      }
      further.met[{rank, at}] = other;
      all.push_back(further);
    }
    return all;
  }

  const RankSteps& program_;
  const Transport transport_;
};

// A receive from any rank is waited for at once.
RankSteps messages_of(std::mt19937& random) {
  const auto number = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  RankSteps result;
  const int ranks = number(2, 4);
  result.ranks.resize(static_cast<std::size_t>(ranks));
  result.groups = {{}};
  for (int rank = 0; rank < ranks; ++rank) result.groups[0].push_back(rank);
  std::vector<std::vector<std::pair<Operation, bool>>> own(result.ranks.size());
  for (int i = number(2, 6); i > 0; --i) {
    const int from = number(0, ranks - 1), to = (from + number(1, ranks - 1)) % ranks;
    own[static_cast<std::size_t>(from)].push_back({{.kind = Kind::kSend, .peer = to}, false});
    own[static_cast<std::size_t>(to)].push_back(
        {{.kind = Kind::kReceive, .peer = from}, number(1, 100) <= 40});
  }
  for (std::size_t rank = 0; rank < own.size(); ++rank) {
    for (std::size_t i = 1; i < own[rank].size(); ++i) {
      if (number(1, 100) <= 25) std::swap(own[rank][i], own[rank][i - 1]);
    }
    std::vector<std::int32_t> pending;
    std::vector<RankStep>& steps = result.ranks[rank];
    for (const auto& [what, any] : own[rank]) {
      pending.push_back(static_cast<std::int32_t>(steps.size()));
      steps.push_back({.needs = {}, .posts = {what}, .any = any});
      if (!any && number(1, 100) <= 40) continue;
      steps.push_back({.needs = {pending.back()}, .posts = {}});
      pending.pop_back();
    }
    for (const std::int32_t one : pending) steps.push_back({.needs = {one}, .posts = {}});
  }
  return result;
}

// The rule for what the order of transports promises.
bool holds_in_all_before(const std::map<Transport, bool>& ends) {
  bool strict = false;
  for (const Transport transport :
       {Transport::kOneQueue, Transport::kGroupQueue, Transport::kPairQueue,
        Transport::kNonblocking, Transport::kBuffered}) {
    if (strict && !ends.at(transport)) return false;
    strict = strict || ends.at(transport);
  }
  return ends.at(Transport::kBlocking) == ends.at(Transport::kOneQueue);
}

// Other seeds, and more of them, than the test's own: SHARDLAB_SEED, SHARDLAB_PROGRAMS.
std::uint32_t setting(const char* name, std::uint32_t otherwise) {
  const char* given = std::getenv(name);
  return given == nullptr ? otherwise : static_cast<std::uint32_t>(std::atoi(given));
}

}  // namespace

TEST_CASE("each transport ends a drawn program as every interleaving of it ends") {
  const std::uint32_t seed = setting("SHARDLAB_SEED", 1),
                      wanted = setting("SHARDLAB_PROGRAMS", 10'000);
  std::uint32_t tried = 0, left_out = 0, hang = 0, differ = 0;
  std::size_t states = 0;
  for (std::uint32_t draw = 0; tried < wanted; ++draw) {
    const RankSteps program = ProgramDraw(seed * 1'000'003 + draw).program();
    std::map<Transport, bool> ends;
    for (const Transport transport : kTransports) {
      EveryInterleaving every(program, transport);
      const std::optional<bool> expected = every.ends();
      states += every.states();
      if (!expected) break;
      const bool got = run_steps(program, {.transport = transport}).ends();
      ends[transport] = got;
      if (got != *expected) ++differ;
      CAPTURE(draw);
      CAPTURE(to_string(transport));
      CHECK(got == *expected);
    }
    if (ends.size() < std::size(kTransports)) {
      ++left_out;
      continue;
    }
    const bool synchronizes = std::ranges::any_of(program.ranks, [](const auto& steps) {
      return std::ranges::any_of(steps, &RankStep::synchronizes);
    });
    CHECK((synchronizes || holds_in_all_before(ends)));
    const std::optional<std::int64_t> buffers = least_buffers(program);
    for (std::int64_t count = 0; count < 3; ++count) {
      const std::optional<bool> enough =
          EveryInterleaving(program, Transport::kBlocking, count).ends();
      if (enough) CHECK(*enough == (buffers && *buffers <= count));
    }
    hang += ends[Transport::kGroupQueue] ? 0 : 1;
    ++tried;
  }
  MESSAGE(tried << " programs, " << states << " states, " << left_out << " left out as too large, "
                << hang << " hang where a group has one queue, " << differ << " differ");
  CHECK(left_out < tried / 4);
}

TEST_CASE("receives from any rank hang where some choice of senders hangs") {
  std::mt19937 random(setting("SHARDLAB_SEED", 1));
  std::uint32_t hang = 0, differ = 0;
  const std::uint32_t wanted = setting("SHARDLAB_PROGRAMS", 10'000) / 4;
  for (std::uint32_t draw = 0; draw < wanted; ++draw) {
    const RankSteps program = messages_of(random);
    Promise promise;
    promise.meet(100'000, [&](Transport transport, const std::vector<std::size_t>& way) {
      return meet_steps(program, {.transport = transport}, way);
    });
    for (const auto& [transport, outcome] : promise.outcomes) {
      const bool expected = EveryMeeting(program, transport).hangs();
      CAPTURE(draw);
      CAPTURE(to_string(transport));
      CHECK(outcome.ends() == !expected);
      hang += expected ? 1 : 0;
      differ += outcome.ends() == expected ? 1 : 0;
    }
  }
  MESSAGE(3 * wanted << " verdicts, " << hang << " hang, " << differ << " differ");
}
