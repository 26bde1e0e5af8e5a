// Worlds of shapes against worlds that run: the same broken program, run by one rank of each class
// on the fake backend and by all ranks on threads, must come to the same verdict. Programs are
// drawn: calls and messages on the world and on both dims of a mesh, alike on all ranks but for one
// mistake or two.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>

#include "backends/fake/shape_device.h"
#include "comm/device_mesh.h"
#include "mesh/spec.h"
#include "sim/world/world.h"
#include "tensor/device.h"
#include "tests/support/on_ranks.h"

namespace shardlab {
namespace {

enum class StepKind : std::uint8_t {
  kBarrier,
  kReduce,
  kGather,
  kScatter,
  kExchange,
  kPass,
  kTake
};

/// One call: `group` 0 and 1 are the mesh dims, 2 the world.
struct DrawnStep {
  StepKind kind;
  std::size_t group;
  std::int64_t rows;
  ReduceOp op;
  DType dtype;
  bool fails = false;
};
using DrawnProgram = std::vector<DrawnStep>;

constexpr std::int64_t kRanks = 6;

void perform(const DrawnStep& step, const MeshLayout* layout, RankContext& rank) {
  if (step.fails) fail(ErrorKind::kValue, "no luck on {}", rank.rank);
  ProcessGroup& group = step.group == 2 ? *rank.world : device_mesh(layout).group(step.group);
  const Tensor x = empty(*rank.device, Dims{step.rows, 2}, step.dtype);
  const std::int64_t size = group.size();
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(size), 1);
  lengths[0] = step.rows;
  switch (step.kind) {
    case StepKind::kBarrier:
      group.barrier();
      return;
    case StepKind::kReduce:
      group.all_reduce(x, step.op);
      return;
    case StepKind::kGather: {
      const std::vector<std::int64_t> equal(static_cast<std::size_t>(size), step.rows);
      group.all_gather(x, 0, equal);
      return;
    }
    case StepKind::kScatter: {
      const Tensor all = empty(*rank.device, Dims{step.rows + size - 1, 2}, step.dtype);
      group.reduce_scatter(all, 0, lengths, step.op);
      return;
    }
    case StepKind::kExchange: {
      // Rows are dealt out, columns put together: each brings as many columns as its piece has.
      const std::vector<std::int64_t> columns(static_cast<std::size_t>(size), 2);
      const Tensor all = empty(*rank.device, Dims{step.rows + size - 1, 2}, step.dtype);
      group.all_to_all(all, 0, lengths, 1, columns);
      return;
    }
    case StepKind::kPass:
      if (group.rank() == 0) group.send(x, 1, step.rows);
      if (group.rank() == 1) group.recv(x.meta(), 0, step.rows);
      return;
    case StepKind::kTake: {
      std::int64_t from = -1;
      if (group.rank() == 0) group.send(x, 1, 7);
      if (group.rank() == 1) group.recv_from_any(x.meta(), 7, from);
    }
  }
}

struct Drawn {
  std::vector<DrawnProgram> by_rank;
  std::string mistakes;
};

class Drawer {
 public:
  explicit Drawer(std::uint32_t seed) : random_(seed) {}

  Drawn draw() {
    DrawnProgram common;
    for (std::int64_t count = 1 + below(5); count > 0; --count) common.push_back(step());
    Drawn drawn{std::vector<DrawnProgram>(kRanks, common), ""};
    for (std::int64_t odd = 1 + below(2); odd > 0; --odd) {
      const std::int64_t rank = below(kRanks);
      drawn.mistakes += fmt::format("rank {}: {}. ", rank,
                                    mistake(drawn.by_rank[static_cast<std::size_t>(rank)]));
    }
    return drawn;
  }

 private:
  std::string mistake(DrawnProgram& program) {
    if (program.empty()) return "none";
    DrawnStep& changed =
        program[static_cast<std::size_t>(below(static_cast<std::int64_t>(program.size())))];
    switch (below(7)) {
      case 0:
        return "none";
      case 1:
        program.pop_back();
        return "one call fewer at the end";
      case 2:
        changed.rows += 1;
        return "other sizes";
      case 3:
        changed.op = changed.op == ReduceOp::kSum ? ReduceOp::kMax : ReduceOp::kSum;
        return "another op";
      case 4:
        changed.dtype = changed.dtype == DType::kF32 ? DType::kF64 : DType::kF32;
        return "another dtype";
      case 5:
        changed.fails = true;
        return "a failure";
      default:
        changed.kind = changed.kind == StepKind::kBarrier ? StepKind::kReduce : StepKind::kBarrier;
        return "another collective";
    }
  }
  std::int64_t below(std::int64_t limit) {
    return std::uniform_int_distribution<std::int64_t>(0, limit - 1)(random_);
  }
  DrawnStep step() {
    return {.kind = static_cast<StepKind>(below(7)),
            .group = static_cast<std::size_t>(below(3)),
            .rows = below(3),
            .op = below(2) == 0 ? ReduceOp::kSum : ReduceOp::kMax,
            .dtype = below(2) == 0 ? DType::kF32 : DType::kF64};
  }

  std::mt19937 random_;
};

WorldResult run_drawn(const Drawn& drawn, const MeshLayout* layout, bool shapes) {
  const auto nothing = make_shape_device();
  WorldOptions options = plain_world(kRanks);
  options.layout = layout;
  const auto body = [&](RankContext& rank) {
    rank.meshes->construct(layout);
    for (const DrawnStep& step : drawn.by_rank[static_cast<std::size_t>(rank.rank)]) {
      perform(step, layout, rank);
    }
  };
  if (!shapes) return run_world(options, body);
  options.backend = "fake";
  options.device = [&](std::int64_t) -> Device& { return *nothing; };
  return run_world(options, [&](RankContext& rank, const RunsFor& runs) {
    runs.questions->ask([](std::int64_t other) { return static_cast<std::uint64_t>(other); });
    body(rank);
  });
}

/// Kind, culprits, cause and the last call of each rank.
std::string verdict_text(const WorldResult& result) {
  if (!result.verdict) return result.ok() ? "fine" : "failed: " + result.merged().summary();
  const Verdict& verdict = *result.verdict;
  std::string told = fmt::format("{} | {} | {}", to_string(verdict.kind),
                                 fold_ranks(verdict.culprits), verdict.cause);
  if (verdict.kind != VerdictKind::kRankFailed) told += "\n" + text(verdict);
  return told;
}

}  // namespace

TEST_CASE("B-5 B-6 B-7 a world of shapes comes to the verdict of a world that runs") {
  Arena arena;
  const MeshLayout* layout = arena.layout({{2, 3}, {"dp", "tp"}, {}});
  Drawer drawer(20261123);
  std::map<std::string, int> kinds;
  for (int number = 0; number < 350; ++number) {
    const Drawn drawn = drawer.draw();
    CAPTURE(number);
    CAPTURE(drawn.mistakes);
    const std::string real = verdict_text(run_drawn(drawn, layout, false));
    CHECK(verdict_text(run_drawn(drawn, layout, true)) == real);
    ++kinds[real.substr(0, real.find(' '))];
  }
  // Every kind of verdict was drawn, often.
  CHECK(kinds["fine"] > 20);
  CHECK(kinds["mismatch"] > 20);
  CHECK(kinds["deadlock"] > 20);
  CHECK(kinds["rank_failed"] > 20);
}

namespace {

/// A world of shapes on one mesh dim of `ranks` ranks, with the classes of `class_of`.
WorldResult run_line(std::int64_t ranks, const std::function<int(std::int64_t)>& class_of,
                     const std::function<void(ProcessGroup&, int)>& body) {
  Arena arena;
  const auto nothing = make_shape_device();
  WorldOptions options = plain_world(ranks);
  options.layout = arena.layout({{ranks}, {"x"}, {}});
  options.backend = "fake";
  options.device = [&](std::int64_t) -> Device& { return *nothing; };
  return run_world(options, [&](RankContext& rank, const RunsFor& runs) {
    rank.meshes->construct(options.layout);
    runs.questions->ask(
        [&](std::int64_t other) { return static_cast<std::uint64_t>(class_of(other)); });
    body(device_mesh(options.layout).group(0), class_of(rank.rank));
  });
}

std::vector<std::int64_t> ranks_where(std::int64_t ranks,
                                      const std::function<bool(std::int64_t)>& holds) {
  std::vector<std::int64_t> found;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    if (holds(rank)) found.push_back(rank);
  }
  return found;
}

}  // namespace

TEST_CASE("B-24 a world of shapes takes from any rank what was sent, the lowest first") {
  std::vector<std::vector<std::int64_t>> order(4);  // by rank, of its last run
  const WorldResult result = run_line(
      4, [](std::int64_t) { return 0; },
      [&](ProcessGroup& group, int) {
        const auto rank = static_cast<std::size_t>(group.rank());
        order[rank].clear();
        const Tensor x = empty(*current_rank().device, Dims{2}, DType::kF32);
        const auto take = [&](std::int64_t tag) {
          std::int64_t from = -1;
          group.recv_from_any(x.meta(), tag, from);
          order[rank].push_back(from);
          return from;
        };
        // Rank 3 sends when rank 2 has heard from 0, which has heard from 1 and 2 by then.
        if (rank == 0) {
          group.send(x, take(0), 1);
          group.send(x, take(0), 1);
          take(0);
        } else if (rank == 3) {
          take(2);
          group.send(x, 0, 0);
        } else {
          group.send(x, 0, 0);
          take(1);
          if (rank == 2) group.send(x, 3, 2);
        }
      });
  CHECK(result.ok());
  CHECK(order == std::vector<std::vector<std::int64_t>>{{1, 2, 3}, {0}, {0}, {2}});
  CHECK(result.classes.size() == 4);
}

TEST_CASE("B-24 in a world of shapes lines of a mesh take from any alike") {
  Arena arena;
  const MeshLayout* layout = arena.layout({{1000, 3}, {"dp", "tp"}, {}});
  const auto nothing = make_shape_device();
  WorldOptions options = plain_world(3000);
  options.layout = layout;
  options.backend = "fake";
  options.device = [&](std::int64_t) -> Device& { return *nothing; };
  const WorldResult result = run_world(options, [&](RankContext& rank, const RunsFor&) {
    rank.meshes->construct(layout);
    ProcessGroup& group = device_mesh(layout).group(1);
    const Tensor x = empty(*rank.device, Dims{2}, DType::kF32);
    std::int64_t from = -1;
    if (group.rank() == 1) group.recv_from_any(x.meta(), 0, from);
    if (group.rank() == 1) CHECK(from == 0);
    if (group.rank() == 1) group.recv_from_any(x.meta(), 0, from);
    if (group.rank() == 1) CHECK(from == 2);
    if (group.rank() != 1) group.send(x, 1, 0);
  });
  CHECK(result.ok());
  CHECK(result.classes.size() == 3);
}

TEST_CASE("B-6 a deadlock of thousands of ranks names all that have ended, and reports by class") {
  // The second class ends early, the third waits for the world where others wait for the mesh.
  const auto class_of = [](std::int64_t rank) {
    return rank % 1000 == 7 ? 1 : rank % 1000 == 8 ? 2 : 0;
  };
  for (const std::int64_t ranks : {2048, 8192}) {
    CAPTURE(ranks);
    const WorldResult result = run_line(ranks, class_of, [](ProcessGroup& group, int which) {
      group.barrier();
      if (which == 0) group.barrier();
      if (which == 2) current_rank().world->barrier();
    });
    REQUIRE(result.verdict);
    CHECK(result.verdict->kind == VerdictKind::kDeadlock);
    CHECK(result.verdict->culprits ==
          ranks_where(ranks, [&](std::int64_t rank) { return class_of(rank) == 1; }));
    // One by one up to 4,096 ranks, then one for each class: every rank is accounted for.
    CHECK(result.verdict->ranks.size() == (ranks > 4096 ? 3u : 2048u));
    std::int64_t told = 0;
    for (const RankReport& report : result.verdict->ranks) {
      told += 1 + report.alike;
      CHECK((report.state == RankReport::State::kEnded) == (class_of(report.rank) == 1));
      if (class_of(report.rank) == 0) CHECK(report.group == "x");
      if (class_of(report.rank) == 2) CHECK(report.group == "world");
    }
    CHECK(told == ranks);
  }
}

TEST_CASE("B-6 all awaited ranks are missed where nobody has ended") {
  const std::int64_t ranks = 8192;
  const WorldResult result = run_line(
      ranks, [](std::int64_t rank) { return rank < 4096 ? 0 : 1; },
      [](ProcessGroup& group, int which) {
        if (which == 0) {
          current_rank().world->barrier();
        } else {
          group.barrier();
        }
      });
  REQUIRE(result.verdict);
  CHECK(result.verdict->kind == VerdictKind::kDeadlock);
  CHECK(result.verdict->culprits.size() == static_cast<std::size_t>(ranks));
}

TEST_CASE("B-5 an all_to_all of many ranks fits exactly where the same one of few does") {
  struct Row {
    const char* what;
    std::int64_t odd_rows;     ///< number of rows that the odd ranks send to each of the others
    std::int64_t odd_columns;  ///< number of columns that they send
    std::int64_t expected;     ///< number that others expect of them
    bool fits;
  };
  const Row rows[] = {
      {"all alike", 1, 2, 2, true},
      {"more columns, as awaited", 1, 3, 3, true},
      {"more columns than awaited", 1, 3, 2, false},
      {"more rows than others take", 2, 2, 2, false},
  };
  const auto odd = [](std::int64_t rank) { return rank % 5 == 2 ? 1 : 0; };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    for (const std::int64_t ranks : {10, 400}) {  // each pair is looked at up to 256 ranks
      CAPTURE(ranks);
      const auto count = static_cast<std::size_t>(ranks);
      const WorldResult result = run_line(ranks, odd, [&](ProcessGroup& group, int which) {
        const bool apart = which == 1;
        const std::int64_t given = apart ? row.odd_rows : 1;
        const std::vector<std::int64_t> lengths(count, given);
        std::vector<std::int64_t> columns(count, 2);
        for (const std::int64_t rank : ranks_where(ranks, odd)) {
          columns[static_cast<std::size_t>(rank)] = apart ? row.odd_columns : row.expected;
        }
        const Tensor x = empty(*current_rank().device,
                               Dims{given * ranks, apart ? row.odd_columns : 2}, DType::kF32);
        group.all_to_all(x, 0, lengths, 1, columns);
      });
      CHECK(result.ok() == row.fits);
      if (row.fits) continue;
      REQUIRE(result.verdict);
      CHECK(result.verdict->kind == VerdictKind::kMismatch);
      CHECK(result.verdict->cause.starts_with("the ranks of group x entered all_to_all with "));
    }
  }
}

}  // namespace shardlab
