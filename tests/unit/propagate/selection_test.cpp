// A choice among candidates whose moves take a search for a plan, against the prices of all of
// them: bounds may leave out only candidates that are not cheaper.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>

#include "dispatch/all_ops.h"
#include "propagate/propagator.h"
#include "schema/binder.h"
#include "schema/op_registry.h"

namespace shardlab {
namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(end));
  }
  Placements placements(std::size_t mesh_dims, std::int64_t tensor_dims) {
    Placements drawn;
    for (std::size_t dim = 0; dim < mesh_dims; ++dim) {
      const std::int64_t cut = below(tensor_dims);
      switch (below(6)) {
        case 0:
          drawn.push_back(Placement::replicate());
          break;
        case 1:
          drawn.push_back(Placement::partial(ReduceOp::kSum));
          break;
        case 2:
        case 3:
          drawn.push_back(Placement::strided_shard(cut, 2 + below(2)));
          break;
        default:
          drawn.push_back(Placement::shard(cut));
      }
    }
    return drawn;
  }

 private:
  std::mt19937_64 random_;
};

struct Kind {
  const char* op;
  std::vector<Dims> shapes;
};

// Sizes at which starts decide, and sizes at which bytes do.
std::vector<Kind> kinds() {
  return {{"add.Tensor", {{24, 36}, {24, 36}}},
          {"mm", {{2400, 3600}, {3600, 1200}}},
          {"addmm", {{48}, {24, 36}, {36, 48}}},
          {"where.self", {{480, 720}, {480, 720}, {480, 720}}}};
}

struct Tally {
  int planned = 0;  // whose least price is not 0
  int tied = 0;     // with candidates of one price
};

void check_choices(const Dims& mesh, int draws, Tally& tally) {
  Arena arena;
  OpRegistry registry;
  register_all_ops(registry);
  PlanOptions options;
  options.topology.devices_per_host = mesh.back();
  const Propagator propagator(registry, options);
  const MeshLayout* layout = arena.layout({mesh, {}, {}});
  Draw draw(7);
  for (int i = 0; i < draws; ++i) {
    for (const Kind& kind : kinds()) {
      Arguments args;
      std::string given;
      for (const Dims& shape : kind.shapes) {
        const Placements placements = draw.placements(mesh.size(), std::ssize(shape));
        const DType dtype = given.empty() && kind.op[0] == 'w' ? DType::kBool : DType::kF32;
        given += to_string(placements) + " ";
        args.push_back(arena.spec(layout, placements, default_order(placements),
                                  contiguous_meta(shape, dtype), StridedShards::kPieces));
      }
      const OpRow& row = registry.at(kind.op);
      CAPTURE(kind.op);
      CAPTURE(given);
      const DecisionRecord record =
          propagator.explain({&row, bind_arguments(row, std::move(args)), layout});
      const std::vector<OpSpec>& candidates = record.strategies.at(0).candidates;
      std::size_t first = 0;
      int equal = 0;
      for (std::size_t index = 0; index < candidates.size(); ++index) {
        if (candidates[index].cost() < candidates[first].cost()) first = index;
      }
      const double least = candidates[first].cost();
      for (const OpSpec& candidate : candidates) equal += candidate.cost() == least ? 1 : 0;
      const auto selected = static_cast<std::size_t>(record.selected.at(0));
      CHECK(candidates.at(selected).cost() == least);
      if (record.choice.find("every input stays") != record.choice.npos) continue;
      CHECK(selected == first);
      if (least == 0) continue;
      ++tally.planned;
      if (equal > 1) ++tally.tied;
    }
  }
}

TEST_CASE("K-26 with strided shards the first candidate of least cost is chosen") {
  Tally tally;
  check_choices({2, 2}, 60, tally);
  check_choices({2, 3}, 60, tally);
  check_choices({2, 3, 2}, 3, tally);
  CHECK(tally.planned > 150);
  CHECK(tally.tied > 20);
}

}  // namespace
}  // namespace shardlab
