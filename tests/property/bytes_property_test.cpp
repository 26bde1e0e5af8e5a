// The planner `bytes` against an exhaustive search that shares nothing with it: every rank's
// elements are sets, every pair of states is tried as a step.
#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <array>
#include <bitset>
#include <map>
#include <random>
#include <set>

#include "mesh/local_shape.h"
#include "plan/measure.h"
#include "plan/state.h"
#include "tests/property/redistribute_case.h"

namespace shardlab {
namespace {

using Elements = std::bitset<64>;
using Cost = std::array<std::int64_t, 3>;  ///< elements received, steps, elements held at once
constexpr Cost kFar = {1 << 28, 0, 0};

Cost then(const Cost& a, const Cost& b) { return {a[0] + b[0], a[1] + b[1], std::max(a[2], b[2])}; }

struct Held {
  Elements elements;
  Dims shape;
  std::int64_t term = 0;
  bool operator<(const Held& other) const {
    const auto order = [](const Held& held) {
      return std::tuple(held.elements.to_ullong(), held.term,
                        std::vector<std::int64_t>(held.shape.begin(), held.shape.end()));
    };
    return order(*this) < order(other);
  }
  std::int64_t size() const { return static_cast<std::int64_t>(elements.count()); }
};

Held held_by(const DTensorSpec& spec, const Coordinate& coordinate) {
  Held held;
  const LocalView view = local_view(spec, coordinate);
  const Dims& shape = spec.shape();
  for (std::int64_t element = 0; element < spec.numel(); ++element) {
    bool mine = true;
    std::int64_t rest = element;
    for (std::size_t dim = shape.size(); dim-- > 0;) {
      const std::int64_t index = rest % shape[dim];
      rest /= shape[dim];
      bool covered = false;
      for (const IndexRun& run : view.dims[dim].runs) {
        covered |= index >= run.offset && index < run.offset + run.size;
      }
      mine &= covered;
    }
    held.elements[static_cast<std::size_t>(element)] = mine;
  }
  held.shape = local_shape(spec, coordinate);
  for (std::size_t dim = 0; dim < coordinate.size(); ++dim) {
    if (spec.placement(dim).is_partial()) {
      held.term = held.term * spec.layout()->size(dim) + coordinate[dim];
    }
  }
  return held;
}

/// All states of one tensor on one mesh, and the cheapest way between any two.
class Exhaustive {
 public:
  Exhaustive(const Dims& mesh, const Dims& shape) : layout_(arena_.layout({mesh, {}, {}})) {
    const TensorMeta meta = contiguous_meta(shape, DType::kF32);
    Placements placements(mesh.size());
    add_states(placements, 0, meta);
    for (const DTensorSpec* spec : specs_) {
      std::vector<Held> ranks;
      for (std::int64_t rank = 0; rank < layout_->size(); ++rank) {
        ranks.push_back(held_by(*spec, layout_->coordinate_at_index(rank)));
      }
      held_.push_back(std::move(ranks));
    }
    const std::size_t count = specs_.size();
    edges_.assign(count, std::vector<Cost>(count, kFar));
    for (std::size_t a = 0; a < count; ++a) {
      for (std::size_t b = 0; b < count; ++b) {
        if (a != b) edges_[a][b] = edge(a, b);
      }
    }
  }

  const std::vector<const DTensorSpec*>& specs() const { return specs_; }

  enum class Terms : std::uint8_t { kOnlyGiven, kMade };
  /// Cheapest ways from one state to all. Terms are only made on the way to a target that has some:
  /// moved values stay bitwise what they were.
  std::vector<Cost> from(std::size_t source, Terms may_be) const {
    std::vector<Cost> best(specs_.size(), kFar);
    std::set<std::pair<Cost, std::size_t>> open{{Cost{}, source}};
    best[source] = {};
    while (!open.empty()) {
      const auto [cost, at] = *open.begin();
      open.erase(open.begin());
      if (best[at] < cost) continue;
      for (std::size_t next = 0; next < specs_.size(); ++next) {
        if (edges_[at][next] == kFar) continue;
        if (may_be == Terms::kOnlyGiven && terms(next) > terms(at)) continue;
        const Cost reached = then(cost, edges_[at][next]);
        if (!(reached < best[next])) continue;
        best[next] = reached;
        open.insert({reached, next});
      }
    }
    return best;
  }

  /// The cost of a plan's steps here; far when one of them is not a step.
  Cost of(const Plan& plan) const {
    Cost cost{};
    std::size_t at = find(first_state(plan));
    for (const PlanStep& step : plan.steps) {
      const std::size_t next = find({step.after, step.order_after});
      if (edges_[at][next] == kFar) return kFar;
      cost = then(cost, edges_[at][next]);
      at = next;
    }
    return specs_[at] == plan.target ? cost : kFar;
  }

 private:
  void add_states(Placements& placements, std::size_t dim, const TensorMeta& meta) {
    if (dim == placements.size()) return add_orders(placements, meta);
    for (std::size_t to = 0; to < meta.shape.size(); ++to) {
      placements[dim] = Placement::shard(static_cast<std::int64_t>(to));
      add_states(placements, dim + 1, meta);
    }
    for (const Placement& other : {Placement::replicate(), Placement::partial()}) {
      placements[dim] = other;
      add_states(placements, dim + 1, meta);
    }
  }
  void add_orders(const Placements& placements, const TensorMeta& meta) {
    ShardOrder order(placements.size(), -1);
    const auto places = [&](auto&& self, std::size_t dim) -> void {
      if (dim == placements.size()) {
        try {
          specs_.push_back(arena_.spec(layout_, placements, order, meta));
        } catch (const Error&) {  // not an order
        }
        return;
      }
      if (!placements[dim].is_shard()) return self(self, dim + 1);
      for (std::size_t place = 0; place < placements.size(); ++place) {
        order[dim] = static_cast<std::int32_t>(place);
        self(self, dim + 1);
      }
    };
    places(places, 0);
  }

  std::size_t find(const PlanState& state) const {
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      if (specs_[i]->placements() == state.placements && specs_[i]->order() == state.order)
        return i;
    }
    FAIL("a plan goes through a state that does not exist");
    return 0;
  }

  Cost edge(std::size_t a, std::size_t b) const {
    const std::int64_t received = std::min(one_step(a, b), exchange(a, b));
    if (received == kFar[0]) return kFar;
    std::int64_t peak = 0;
    for (std::size_t rank = 0; rank < held_[a].size(); ++rank) {
      peak = std::max(peak, held_[a][rank].size() + held_[b][rank].size());
    }
    return {received, 1, peak};
  }

  /// Elements that the busiest rank receives when one mesh dim changes, by a collective along it.
  std::int64_t one_step(std::size_t a, std::size_t b) const {
    const DTensorSpec &from = *specs_[a], &to = *specs_[b];
    std::size_t dim = 0, changed = 0;
    for (std::size_t i = 0; i < from.placements().size(); ++i) {
      if (from.placement(i) == to.placement(i)) {
        continue;
      }
      dim = i;
      ++changed;
    }
    if (changed != 1 || !keeps_other_cuts(from, to, dim)) return kFar[0];
    const Placement &before = from.placement(dim), &after = to.placement(dim);
    if (before.is_replicate() || after.is_partial()) return 0;
    std::int64_t most = 0;
    const std::int64_t n = layout_->size(dim);
    for (std::int64_t rank = 0; rank < layout_->size(); ++rank) {
      const Held& mine = held_[a][static_cast<std::size_t>(rank)];
      const Held& wanted = held_[b][static_cast<std::size_t>(rank)];
      Coordinate next = layout_->coordinate_at_index(rank);
      next[dim] = (next[dim] + 1) % n;
      const auto beside = static_cast<std::size_t>(layout_->index_of(next));
      std::int64_t received = static_cast<std::int64_t>((wanted.elements & ~mine.elements).count());
      if (before.is_partial() && after.is_replicate()) {
        received = (2 * (n - 1) * mine.size() + n - 1) / n;
      } else if (before.is_partial()) {
        received = mine.size() - held_[b][beside].size();
      }
      most = std::max(most, received);
    }
    return most;
  }

  /// The cut that is removed was the last of its tensor dim, the one that is added is the last of
  /// its own.
  static bool keeps_other_cuts(const DTensorSpec& from, const DTensorSpec& to, std::size_t dim) {
    for (std::size_t i = 0; i < from.placements().size(); ++i) {
      if (i != dim && from.order()[i] != to.order()[i]) return false;
      if (i == dim) continue;
      const auto later = [&](const DTensorSpec& spec) {
        return spec.placement(dim).is_shard() && spec.placement(i).is_shard() &&
               spec.placement(i).dim == spec.placement(dim).dim &&
               spec.order()[i] > spec.order()[dim];
      };
      if (later(from) || later(to)) return false;
    }
    return true;
  }

  /// The same pieces on other ranks: the elements of the largest piece that must move.
  std::int64_t exchange(std::size_t a, std::size_t b) const {
    std::multiset<Held> has(held_[a].begin(), held_[a].end());
    const std::multiset<Held> needs(held_[b].begin(), held_[b].end());
    const auto same = [](const Held& x, const Held& y) { return !(x < y) && !(y < x); };
    if (!std::equal(has.begin(), has.end(), needs.begin(), needs.end(), same)) return kFar[0];
    if (terms(a) != terms(b)) return kFar[0];
    std::int64_t most = 0;
    for (std::size_t rank = 0; rank < held_[a].size(); ++rank) {
      if (!same(held_[a][rank], held_[b][rank])) most = std::max(most, held_[b][rank].size());
    }
    return most;
  }
  std::int64_t terms(std::size_t state) const {
    std::int64_t count = 1;
    for (std::size_t dim = 0; dim < layout_->ndim(); ++dim) {
      if (specs_[state]->placement(dim).is_partial()) count *= layout_->size(dim);
    }
    return count;
  }

  Arena arena_;
  const MeshLayout* layout_;
  std::vector<const DTensorSpec*> specs_;
  std::vector<std::vector<Held>> held_;
  std::vector<std::vector<Cost>> edges_;
};

void compare_all_pairs(const Dims& mesh, const Dims& shape) {
  const Exhaustive all(mesh, shape);
  PlanOptions options;
  options.planner = PlannerKind::kBytes;
  std::int64_t pairs = 0;
  for (std::size_t a = 0; a < all.specs().size(); ++a) {
    const std::vector<Cost> moved = all.from(a, Exhaustive::Terms::kOnlyGiven);
    const std::vector<Cost> termed = all.from(a, Exhaustive::Terms::kMade);
    for (std::size_t b = 0; b < all.specs().size(); ++b) {
      const DTensorSpec &source = *all.specs()[a], &target = *all.specs()[b];
      INFO("mesh (" << fmt::format("{}", fmt::join(mesh, ",")) << ") shape ("
                    << fmt::format("{}", fmt::join(shape, ",")) << ") "
                    << order_text(source.placements(), source.order()) << " -> "
                    << order_text(target.placements(), target.order()));
      const PlanResult result = make_plan(source, target, options);
      REQUIRE(std::holds_alternative<Plan>(result));
      const Plan& plan = std::get<Plan>(result);
      INFO("plan " << plan.text());
      REQUIRE(plan.proof);
      CHECK(plan.proof->optimal);
      const Cost best = (target.has_partial() ? termed : moved)[b];
      CHECK(all.of(plan) == best);
      CHECK(plan.proof->bytes == 4 * best[0]);
      CHECK(plan.proof->bound <= plan.proof->bytes);
      const auto figures = measure_steps(plan, {});
      CHECK(sum_up(figures, *source.layout(), {}).received == plan.proof->bytes);
      ++pairs;
    }
  }
  MESSAGE(pairs << " pairs");
}

TEST_CASE("planner bytes finds what an exhaustive search finds, on all pairs of small meshes") {
  compare_all_pairs({2, 2}, {5, 3});
  compare_all_pairs({2, 2}, {4, 4});
  compare_all_pairs({2, 2}, {7});
  compare_all_pairs({2, 3}, {6});
  compare_all_pairs({2, 3}, {7, 5});
  compare_all_pairs({2, 3}, {6, 1});
  compare_all_pairs({2, 2, 2}, {5, 3});
  compare_all_pairs({2, 2, 2}, {9});
  compare_all_pairs({2, 2, 2}, {8, 4});
}

bool has_strided(const Placements& placements) {
  return std::ranges::any_of(placements, &Placement::is_strided_shard);
}

TEST_CASE("planner bytes finishes optimal on nearly all random pairs of 4-d meshes") {
  constexpr int kCases = 1000;
  std::mt19937_64 random(20250610);
  int optimal = 0;
  for (int number = 0; number < kCases; ++number) {
    test::RedistributeCase one = test::draw_case(random);
    const auto searched = [&] {
      return one.mesh.size() == 4 && !has_strided(one.source) && !has_strided(one.target);
    };
    while (!searched()) one = test::draw_case(random);
    Arena arena;
    const MeshLayout* layout = arena.layout({one.mesh, {}, {}});
    const TensorMeta meta = contiguous_meta(one.shape, one.dtype);
    const DTensorSpec* source = arena.spec(layout, one.source, one.source_order, meta);
    const DTensorSpec* target = arena.spec(layout, one.target, one.target_order, meta);
    PlanOptions options;
    options.planner = PlannerKind::kBytes;
    const PlanResult result = make_plan(*source, *target, options);
    const Plan* plan = std::get_if<Plan>(&result);
    optimal += plan && plan->proof && plan->proof->optimal ? 1 : 0;
  }
  MESSAGE(optimal << " of " << kCases << " optimal");
  CHECK(optimal >= kCases * 9 / 10);
}

}  // namespace
}  // namespace shardlab
