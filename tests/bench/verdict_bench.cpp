// verdict_bench - from the moment a failure is inevitable until the last rank has heard of it, in
// microseconds: the broken programs of tests/verdicts on every scheduler, and some of them on many
// ranks.
//
//     verdict_bench CASES        (the folder tests/verdicts/cases)
//
// The moment: when the last rank that the failure needs enters its call, ends or throws, as seen
// where it calls its communicator: too early, if anything. A rank that enters its call later, or is
// still computing, hears of it there: its time counts from then. Fibers of one OS thread take
// turns: while one computes, the others wait, whether they have heard or not. `best/median/worst`
// of 15 runs.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/process_group.h"
#include "dispatch/all_ops.h"
#include "schema/op_registry.h"
#include "sim/judge/scenario_run.h"
#include "sim/scenario/scenario_file.h"
#include "sim/world/world.h"
#include "tests/bench/timed_communicator.h"
#include "tests/support/local_tensor.h"
#include "tests/support/on_ranks.h"

namespace {

using namespace shardlab;
using bench::Clock;
using bench::RankTimes;

constexpr int kRuns = 15;

struct Setting {
  const char* name;
  SchedulerOptions schedule;
};
const Setting kSettings[] = {
    {"pool", {.kind = SchedulerKind::kPool}},
    {"pool of 3", {.kind = SchedulerKind::kPool, .workers = 3}},
    {"threads", {.kind = SchedulerKind::kThreads}},
    {"seeded", {.kind = SchedulerKind::kSeeded, .seed = 17}},
};

Tensor ones(std::int64_t count) {
  return local_tensor({count}, DType::kF32,
                      std::vector<double>(static_cast<std::size_t>(count), 1));
}

void compute(std::chrono::milliseconds time) {
  const auto end = Clock::now() + time;
  while (Clock::now() < end) {
  }
}

struct Program {
  const char* name;
  std::function<void(RankContext&)> body;
};

const Program kPrograms[] = {
    {"mismatch: another shape on the last rank",
     [](RankContext& rank) {
       const bool odd = rank.rank == rank.world_size - 1;
       rank.world->all_reduce(ones(odd ? 3 : 2), ReduceOp::kSum);
     }},
    {"mismatch: a barrier among all_reduces",
     [](RankContext& rank) {
       if (rank.rank == 1) rank.world->barrier();
       rank.world->all_reduce(ones(2), ReduceOp::kSum);
     }},
    {"deadlock: the last rank never comes",
     [](RankContext& rank) {
       if (rank.rank != rank.world_size - 1) rank.world->barrier();
     }},
    {"deadlock: each rank receives from the next one, in a cycle of all",
     [](RankContext& rank) {
       rank.world->recv(ones(2).meta(), (rank.rank + 1) % rank.world_size, 0);
     }},
    {"mismatch: a message of another size than the receiver's, rank 0 to 1",
     [](RankContext& rank) {
       if (rank.rank == 0) rank.world->send(ones(3), 1, 0);
       if (rank.rank == 1) rank.world->recv(ones(2).meta(), 0, 0);
       if (rank.rank > 1) rank.world->barrier();
     }},
    {"death: the last rank throws",
     [](RankContext& rank) {
       if (rank.rank == rank.world_size - 1) fail(ErrorKind::kAssert, "gone");
       rank.world->barrier();
     }},
    {"death while the last rank computes for 50 ms",
     [](RankContext& rank) {
       if (rank.rank == 1) fail(ErrorKind::kAssert, "gone");
       if (rank.rank == rank.world_size - 1) compute(std::chrono::milliseconds(50));
       rank.world->barrier();
     }},
};

// Microseconds from the moment until the last rank heard; none: no rank had to hear. Of a rank
// that failed, its last call is known, or when it threw.
std::optional<double> time_to_verdict(const Verdict& verdict, const std::vector<RankTimes>& ranks) {
  std::optional<Clock::time_point> moment;
  if (verdict.kind == VerdictKind::kRankFailed) {
    const RankTimes& first = ranks[static_cast<std::size_t>(verdict.culprits.at(0))];
    moment = first.threw.value_or(first.entered);
  } else {
    for (const RankTimes& rank : ranks) {
      const Clock::time_point last = rank.told ? rank.entered : rank.ended;
      if (!moment || last > *moment) moment = last;
    }
  }
  std::optional<double> longest;
  for (const RankTimes& rank : ranks) {
    if (!rank.told) continue;
    const auto since = std::max(*moment, rank.entered);
    const double time = std::chrono::duration<double, std::micro>(*rank.told - since).count();
    longest = std::max(longest.value_or(0), time);
  }
  return longest;
}

using Times = std::vector<double>;

void print_row(const std::string& name, const std::vector<Times>& columns) {
  std::string row = fmt::format("{:<66}", name);
  for (Times times : columns) {
    std::ranges::sort(times);
    const std::string text = times.empty() ? "-"
                                           : fmt::format("{:.0f}/{:.0f}/{:.0f}", times.front(),
                                                         times[times.size() / 2], times.back());
    row += fmt::format(" {:>18}", text);
  }
  std::puts(row.c_str());
}

void print_header(const char* title) {
  std::string row = fmt::format("{:<66}", title);
  for (const Setting& setting : kSettings) row += fmt::format(" {:>18}", setting.name);
  std::puts(row.c_str());
}

void print_cases(const std::string& folder) {
  OpRegistry registry;
  register_all_ops(registry);
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".toml") paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  print_header("broken programs of tests/verdicts, us");
  for (const std::filesystem::path& path : paths) {
    const ScenarioFile file = ScenarioFile::open(path.string(), {});
    const Scenario scenario = file.at(file.points()[0]);
    std::vector<Times> columns;
    for (const Setting& setting : kSettings) {
      Times& times = columns.emplace_back();
      for (int run = 0; run < kRuns; ++run) {
        bench::TimedWorld world(scenario.world);
        ScenarioOptions options;
        options.schedule = setting.schedule;
        options.workers = setting.schedule.workers;
        options.communicator = world.decorator();
        const ScenarioResult result = run_scenario(scenario, registry, options);
        if (!result.run.verdict) continue;
        if (const auto time = time_to_verdict(*result.run.verdict, world.ranks())) {
          times.push_back(*time);
        }
      }
    }
    print_row(path.stem().string(), columns);
  }
}

void print_programs() {
  print_header("on many ranks, us");
  for (const Program& program : kPrograms) {
    for (const std::int64_t ranks : {4, 64, 256}) {
      std::vector<Times> columns;
      for (const Setting& setting : kSettings) {
        Times& times = columns.emplace_back();
        for (int run = 0; run < kRuns; ++run) {
          bench::TimedWorld world(ranks);
          WorldOptions options = plain_world(ranks);
          options.schedule = setting.schedule;
          options.communicator = world.decorator();
          const WorldResult result = run_world(options, world.body(program.body));
          if (const auto time = time_to_verdict(*result.verdict, world.ranks())) {
            times.push_back(*time);
          }
        }
      }
      print_row(fmt::format("{}, {} ranks", program.name, ranks), columns);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: verdict_bench CASES\n", stderr);
    return 2;
  }
  print_cases(argv[1]);
  print_programs();
  return 0;
}
