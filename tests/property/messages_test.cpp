// Programs of up to three ranks with messages, drawn, against every interleaving of them: the
// verdict is a deadlock if some order of ranks never ends, a mismatch if two sides that meet do not
// fit, and nothing if all orders end; received values are those sent at their place. A world of
// shapes has the same verdict.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "backends/fake/shape_device.h"
#include "comm/process_group.h"
#include "comm/verdict.h"
#include "mesh/spec.h"
#include "tensor/device.h"
#include "tests/support/local_tensor.h"
#include "tests/support/on_ranks.h"

using namespace shardlab;

namespace {

// One side of a message. `waits`: at once; else at the end of the program.
struct Side {
  bool sends = false;
  std::int64_t peer = 0;
  std::int64_t tag = 0;
  std::int64_t size = 1;
  bool waits = true;
};
using Sides = std::vector<std::vector<Side>>;  // by rank, in its order

// The number-th message of a way.
using Way = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // from, to, tag

struct Outcome {
  bool ends = false;
  bool torn = false;
  bool operator==(const Outcome&) const = default;
  auto operator<=>(const Outcome&) const = default;
};

// All orders in which ranks can take their steps. A step posts the next side of a rank; a rank that
// waits for a side without a partner cannot take it.
class AllOrders {
 public:
  explicit AllOrders(const Sides& sides) : sides_(sides) {}

  std::set<Outcome> outcomes() {
    visit(std::vector<std::size_t>(sides_.size(), 0));
    return outcomes_;
  }

 private:
  using Places = std::vector<std::size_t>;

  Way way_of(std::size_t rank, const Side& side) const {
    const auto own = static_cast<std::int64_t>(rank);
    return side.sends ? Way{own, side.peer, side.tag} : Way{side.peer, own, side.tag};
  }

  // The messages that both sides of each way have posted so far, in order.
  std::map<Way, std::pair<std::vector<const Side*>, std::vector<const Side*>>> posted(
      const Places& places) const {
    std::map<Way, std::pair<std::vector<const Side*>, std::vector<const Side*>>> ways;
    for (std::size_t rank = 0; rank < sides_.size(); ++rank) {
      for (std::size_t i = 0; i < places[rank]; ++i) {
        const Side& side = sides_[rank][i];
        auto& [sent, received] = ways[way_of(rank, side)];
        (side.sends ? sent : received).push_back(&side);
      }
    }
    return ways;
  }

  // True when two posted sides do not fit: no rank gets past them.
  bool torn(const Places& places) const {
    for (const auto& [way, both] : posted(places)) {
      const auto& [sent, received] = both;
      for (std::size_t i = 0; i < std::min(sent.size(), received.size()); ++i) {
        if (sent[i]->size != received[i]->size) return true;
      }
    }
    return false;
  }

  bool met(const Places& places, std::size_t rank, std::size_t index) const {
    const Side& side = sides_[rank][index];
    const auto ways = posted(places);
    const auto& [sent, received] = ways.at(way_of(rank, side));
    const auto& own = side.sends ? sent : received;
    const auto& other = side.sends ? received : sent;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (i >= other.size() || own[i]->size != other[i]->size) return false;
      if (own[i] == &side) return true;
    }
    return false;
  }

  // Whether the rank may post its next side, or end where there is none.
  bool goes_on(const Places& places, std::size_t rank) const {
    const std::size_t at = places[rank];
    if (at > 0 && sides_[rank][at - 1].waits && !met(places, rank, at - 1)) return false;
    if (at < sides_[rank].size()) return true;
    for (std::size_t i = 0; i < at; ++i) {
      if (!met(places, rank, i)) return false;
    }
    return true;
  }

  void visit(const Places& places) {
    if (!seen_.insert(places).second) return;
    bool moves = false;
    Outcome outcome{.ends = true, .torn = torn(places)};
    for (std::size_t rank = 0; rank < sides_.size(); ++rank) {
      const bool on = goes_on(places, rank);
      if (!on) outcome.ends = false;
      if (!on || places[rank] == sides_[rank].size()) continue;
      moves = true;
      Places next = places;
      ++next[rank];
      visit(next);
    }
    if (!moves) outcomes_.insert(outcome);
  }

  const Sides& sides_;
  std::set<Places> seen_;
  std::set<Outcome> outcomes_;
};

class MessagesDraw {
 public:
  explicit MessagesDraw(std::uint32_t seed) : random_(seed) {}
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint32_t>(limit));
  }

  // Mostly messages whose two sides are there, in an order of their own on each rank.
  Sides program() {
    const std::int64_t ranks = 2 + below(2);
    Sides sides(static_cast<std::size_t>(ranks));
    const std::int64_t messages = 1 + below(ranks == 2 ? 4 : 6);
    const bool all_wait = below(2) == 0;
    for (std::int64_t i = 0; i < messages; ++i) {
      const std::int64_t from = below(ranks), to = (from + 1 + below(ranks - 1)) % ranks;
      const std::int64_t tag = below(2), size = 1 + (below(12) == 0 ? 1 : 0);
      add(sides, from, {true, to, tag, 1, all_wait || below(2) == 0});
      if (below(15) != 0) add(sides, to, {false, from, tag, size, all_wait || below(2) == 0});
    }
    return sides;
  }

 private:
  void add(Sides& sides, std::int64_t rank, Side side) {
    constexpr std::size_t kMost = 4;
    auto& own = sides[static_cast<std::size_t>(rank)];
    if (own.size() == kMost) return;
    const bool behind = below(3) != 0;
    const auto at = behind ? std::ssize(own) : below(std::ssize(own) + 1);
    own.insert(own.begin() + at, side);
  }

  std::mt19937 random_;
};

double number_of(std::int64_t from, std::int64_t to, std::int64_t tag, std::int64_t i) {
  return static_cast<double>(((from * 10 + to) * 10 + tag) * 10 + i);
}

// Runs it as the library does; received values are checked where the program ends.
std::optional<VerdictKind> verdict_of(const Sides& sides, const WorldOptions& options) {
  const bool shapes = options.backend == "fake";
  const WorldResult result = run_world(options, [&](RankContext& rank, const RunsFor& runs) {
    if (shapes) {
      runs.questions->ask([](std::int64_t other) { return static_cast<std::uint64_t>(other); });
    }
    struct Pending {
      Tensor x;
      double expected;
    };
    std::vector<Pending> pending;
    std::map<Way, std::int64_t> numbers;
    for (const Side& side : sides[static_cast<std::size_t>(rank.rank)]) {
      const Issue issue = side.waits ? Issue::kWait : Issue::kAsync;
      const std::int64_t from = side.sends ? rank.rank : side.peer;
      const std::int64_t to = side.sends ? side.peer : rank.rank;
      const std::int64_t number = numbers[{from, to, side.tag}]++;
      const double value = number_of(from, to, side.tag, number);
      const Dims shape{side.size};
      if (side.sends) {
        const std::vector<double> values(static_cast<std::size_t>(side.size), value);
        const Tensor x = shapes ? empty(*rank.device, shape, DType::kF64)
                                : local_tensor(shape, DType::kF64, values);
        pending.push_back({rank.world->send(x, to, side.tag, issue), -1});
      } else {
        const TensorMeta meta = contiguous_meta(shape, DType::kF64);
        pending.push_back({rank.world->recv(meta, from, side.tag, issue), value});
      }
    }
    for (const Pending& one : pending) {
      one.x.wait();
      if (one.expected >= 0 && !shapes) CHECK(values_of(one.x)[0] == one.expected);
    }
  });
  if (result.ok()) return std::nullopt;
  REQUIRE(result.verdict.has_value());
  return result.verdict->kind;
}

}  // namespace

TEST_CASE("B-24 drawn messages of up to three ranks: the verdict is that of all orders of ranks") {
  std::map<std::optional<VerdictKind>, int> seen;
  Arena arena;
  const auto nothing = make_shape_device();
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    CAPTURE(seed);
    const Sides sides = MessagesDraw(seed).program();
    const std::set<Outcome> outcomes = AllOrders(sides).outcomes();
    REQUIRE(outcomes.size() == 1);  // ranks that meet by way and number have one future
    const auto [ends, torn] = *outcomes.begin();
    std::optional<VerdictKind> expected;
    if (!ends) expected = torn ? VerdictKind::kMismatch : VerdictKind::kDeadlock;
    const auto ranks = static_cast<std::int64_t>(sides.size());
    CHECK(verdict_of(sides, plain_world(ranks)) == expected);
    WorldOptions seeded = plain_world(ranks, SchedulerKind::kSeeded);
    seeded.schedule.seed = seed;
    CHECK(verdict_of(sides, seeded) == expected);
    WorldOptions of_shapes = plain_world(ranks);
    of_shapes.layout = arena.layout({{ranks}, {"x"}, {}});
    of_shapes.backend = "fake";
    of_shapes.device = [&](std::int64_t) -> Device& { return *nothing; };
    CHECK(verdict_of(sides, of_shapes) == expected);
    ++seen[expected];
  }
  // The draw reaches all of them.
  CHECK(seen[std::nullopt] > 300);
  CHECK(seen[VerdictKind::kMismatch] > 100);
  CHECK(seen[VerdictKind::kDeadlock] > 300);
}
