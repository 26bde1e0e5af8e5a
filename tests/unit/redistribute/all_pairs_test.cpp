// Every pair of placements of small meshes, by every planner: pieces are cut from the whole value,
// terms are dealt out, by loops in this file, and the final pieces of ranks are put together by
// loops, too. Collectives are counted while they run, against the steps that the plan has.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

#include "mesh/local_shape.h"
#include "plan/measure.h"
#include "tensor/host.h"
#include "tests/unit/dispatch/seen.h"
#include "tests/unit/redistribute/on_mesh.h"

namespace shardlab {
namespace {

using test::OnMesh;
using Numbers = std::vector<double>;

/// All ways to place on two mesh dims, of which at most one kind is pending.
std::vector<Placements> placings(ReduceOp op) {
  const Placement kinds[] = {Placement::replicate(), Placement::shard(0), Placement::shard(1),
                             Placement::partial(op)};
  std::vector<Placements> all;
  for (const Placement& outer : kinds) {
    for (const Placement& inner : kinds) all.push_back({outer, inner});
  }
  return all;
}

double whole_at(std::int64_t row, std::int64_t column) {
  return static_cast<double>(row * 10 + column + 1);
}

/// The number of ranks that hold terms of one value, and the number of the term at `at`.
struct TermPlace {
  std::int64_t count = 1, index = 0;
};
TermPlace term_of(const DTensorSpec& spec, const Coordinate& at) {
  TermPlace place;
  for (std::size_t dim = 0; dim < at.size(); ++dim) {
    if (!spec.placement(dim).is_partial()) continue;
    place = {place.count * spec.layout()->size(dim),
             place.index * spec.layout()->size(dim) + at[dim]};
  }
  return place;
}

/// Terms that are all different: of a sum they add up, of a maximum the last one is the value.
double term(double value, ReduceOp op, const TermPlace& place) {
  if (place.count == 1) return value;
  if (op == ReduceOp::kMax) return value - static_cast<double>(place.count - 1 - place.index);
  const bool last = place.index == place.count - 1;
  const auto own = static_cast<double>(place.index + 1);
  double others = 0;
  for (std::int64_t i = 0; i + 1 < place.count; ++i) others += static_cast<double>(i + 1);
  return last ? value - others : own;
}

Numbers piece_of_whole(const DTensorSpec& spec, const Coordinate& at, ReduceOp op) {
  const LocalView view = local_view(spec, at);
  Numbers piece;
  for (std::int64_t row = 0; row < spec.shape()[0]; ++row) {
    for (std::int64_t column = 0; column < spec.shape()[1]; ++column) {
      if (!view.holds({row, column})) continue;
      piece.push_back(term(whole_at(row, column), op, term_of(spec, at)));
    }
  }
  return piece;
}

/// Adds or takes the largest, element by element, along the mesh dims whose terms are pending.
Numbers reduced_at(const DTensorSpec& spec, const Coordinate& at, ReduceOp op,
                   const std::vector<Numbers>& by_index) {
  Numbers result;
  const MeshLayout& layout = *spec.layout();
  for (std::int64_t index = 0; index < layout.size(); ++index) {
    const Coordinate other = layout.coordinate_at_index(index);
    bool along = true;
    for (std::size_t dim = 0; dim < at.size(); ++dim) {
      along &= spec.placement(dim).is_partial() || other[dim] == at[dim];
    }
    if (!along) continue;
    const Numbers& terms = by_index[static_cast<std::size_t>(index)];
    if (result.empty()) {
      result = terms;
      continue;
    }
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i] = op == ReduceOp::kMax ? std::max(result[i], terms[i]) : result[i] + terms[i];
    }
  }
  return result;
}

/// A replica becomes terms by a division, which rounds (K-16); all else is exact.
bool near(const Numbers& got, const Numbers& expected) {
  if (got.size() != expected.size()) return false;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::fabs(got[i] - expected[i]) > 1e-13 * std::fabs(expected[i])) return false;
  }
  return true;
}

struct Move {
  const DTensorSpec *from, *to;
  std::optional<PlannerKind> planner;
};

std::vector<Move> all_moves(OnMesh& mesh, const Dims& shape, ReduceOp op) {
  std::vector<Move> moves;
  const auto spec_of = [&](const Placements& placements) {
    return mesh.layout()->arena().spec(mesh.layout(), placements,
                                       contiguous_meta(shape, DType::kF64));
  };
  for (const Placements& from : placings(op)) {
    for (const Placements& to : placings(op)) {
      for (const PlannerKind planner :
           {PlannerKind::kGreedy, PlannerKind::kGraph, PlannerKind::kBytes}) {
        // Only of a sum is a piece a term; a replica is one of a maximum, too.
        bool pieces_as_terms = false;
        for (std::size_t dim = 0; dim < 2; ++dim) {
          pieces_as_terms |= to[dim].is_partial() && from[dim].is_shard();
        }
        if (pieces_as_terms && op != ReduceOp::kSum) continue;
        moves.push_back({spec_of(from), spec_of(to), planner});
      }
    }
  }
  return moves;
}

/// The collectives of a plan on a mesh, one a step that communicates, in the order of the steps.
std::vector<CollectiveKind> planned_collectives(const Plan& plan) {
  std::vector<CollectiveKind> kinds;
  for (const PlanStep& step : plan.steps) {
    std::int64_t ranks = 1;
    for (const std::size_t dim : step.mesh_dims) ranks *= plan.source->layout()->size(dim);
    if (!step.communicates() || ranks == 1) continue;
    switch (step.kind) {
      case StepKind::kAllReduce:
        kinds.push_back(CollectiveKind::kAllReduce);
        break;
      case StepKind::kAllGather:
        kinds.push_back(CollectiveKind::kAllGather);
        break;
      case StepKind::kReduceScatter:
        kinds.push_back(CollectiveKind::kReduceScatter);
        break;
      case StepKind::kAllToAll:
        kinds.push_back(CollectiveKind::kAllToAll);
        break;
      default:
        if (!step.senders.empty()) kinds.push_back(CollectiveKind::kPermute);
    }
  }
  return kinds;
}

void check_all_moves(const Dims& mesh_shape, const Dims& shape, ReduceOp op) {
  OnMesh mesh(mesh_shape);
  const std::vector<Move> moves = all_moves(mesh, shape, op);
  const auto ranks = static_cast<std::size_t>(mesh.layout()->size());
  std::vector<std::vector<Numbers>> held(moves.size(), std::vector<Numbers>(ranks));
  std::vector<std::string> wrong_calls(moves.size());
  mesh.run([&](RankContext& rank) {
    const Coordinate at = mesh.layout()->coordinate_at_index(rank.rank);
    for (std::size_t i = 0; i < moves.size(); ++i) {
      const auto& [from, to, planner] = moves[i];
      const Tensor piece =
          test::tensor(local_shape(*from, at), piece_of_whole(*from, at, op), DType::kF64);
      const test::Seen seen;
      RedistributeOptions options;
      options.planner = planner;
      const Tensor moved = redistribute_local(piece, from, to, options);
      held[i][static_cast<std::size_t>(rank.rank)] = read_doubles(moved);
      std::vector<CollectiveKind> called;
      for (const CollectiveRecord& record : seen.collectives) called.push_back(record.kind);
      if (called != planned_collectives(*rank.plans->find(from, to, planner))) {
        wrong_calls[i] = fmt::format("rank {} entered {}", rank.rank, called.size());
      }
    }
  });
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const Move& move = moves[i];
    CAPTURE(to_string(move.from->placements()));
    CAPTURE(to_string(move.to->placements()));
    CAPTURE(to_string(*move.planner));
    CHECK(wrong_calls[i] == "");
    for (std::size_t index = 0; index < ranks; ++index) {
      const Coordinate at = mesh.layout()->coordinate_at_index(static_cast<std::int64_t>(index));
      Numbers expected;
      const LocalView view = local_view(*move.to, at);
      for (std::int64_t row = 0; row < shape[0]; ++row) {
        for (std::int64_t column = 0; column < shape[1]; ++column) {
          if (view.holds({row, column})) expected.push_back(whole_at(row, column));
        }
      }
      CHECK(near(reduced_at(*move.to, at, op, held[i]), expected));
    }
  }
}

}  // namespace

TEST_CASE("R-49 to R-59 every pair of placements of a sum moves the value, as its plan says") {
  check_all_moves({2, 3}, {5, 4}, ReduceOp::kSum);  // uneven on both mesh dims
  check_all_moves({2, 2}, {1, 3}, ReduceOp::kSum);  // empty pieces
  check_all_moves({2, 2}, {0, 2}, ReduceOp::kSum);
  check_all_moves({1, 3}, {4, 3}, ReduceOp::kSum);  // a mesh dim of one rank
}

TEST_CASE("R-49 R-52 every pair of placements of a maximum moves the value") {
  check_all_moves({2, 3}, {5, 4}, ReduceOp::kMax);
  check_all_moves({3, 2}, {2, 1}, ReduceOp::kMax);
}

TEST_CASE("R-8 bytes sent by a plan are those that its collectives send") {
  // 12 x 6 on 2 x 3: everything divides evenly, so that rings send the same from all ranks.
  OnMesh mesh({2, 3});
  const std::vector<Move> moves = all_moves(mesh, {12, 6}, ReduceOp::kSum);
  std::size_t compared = 0;
  mesh.run([&](RankContext& rank) {
    const Coordinate at = mesh.layout()->coordinate_at_index(rank.rank);
    for (const auto& [from, to, planner] : moves) {
      const Plan plan = *rank.plans->find(from, to, planner);
      const std::vector<StepFigures> figures = measure_steps(plan, {});
      const Tensor piece = test::tensor(local_shape(*from, at),
                                        piece_of_whole(*from, at, ReduceOp::kSum), DType::kF64);
      const test::Seen seen;
      RedistributeOptions options;
      options.planner = planner;
      redistribute_local(piece, from, to, options);
      std::size_t next = 0;
      for (std::size_t step = 0; step < plan.steps.size() && next < seen.collectives.size();
           ++step) {
        if (!plan.steps[step].communicates()) continue;
        const CollectiveRecord& record = seen.collectives[next++];
        if (record.kind == CollectiveKind::kPermute || record.kind == CollectiveKind::kBatch)
          continue;
        // An all_gather sends all but the next rank's piece, an all_to_all all but its own part.
        CHECK(static_cast<double>(figures[step].sent_most) == doctest::Approx(record.sent_bytes));
        CHECK(figures[step].sent_least == figures[step].sent_most);
        CHECK(figures[step].received_most == figures[step].sent_most);
        if (rank.rank == 0) ++compared;
      }
    }
  });
  CHECK(compared > 400);
}

}  // namespace shardlab
