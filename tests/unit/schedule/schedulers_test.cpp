#include "sim/schedule/schedulers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <fstream>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/rank_context.h"
#include "sim/schedule/draws.h"
#include "sim/schedule/sanitizer.h"

using namespace shardlab;

namespace {

std::unique_ptr<Scheduler> scheduler_of(SchedulerKind kind, std::int64_t workers = 1) {
  SchedulerOptions options;
  options.kind = kind;
  options.workers = workers;
  return make_scheduler(options);
}

// `pool` with one worker and with several, and the others.
std::vector<std::unique_ptr<Scheduler>> all_schedulers() {
  std::vector<std::unique_ptr<Scheduler>> schedulers;
  for (const SchedulerKind kind : kSchedulerKinds) schedulers.push_back(scheduler_of(kind));
  schedulers.push_back(scheduler_of(SchedulerKind::kPool, 2));
  schedulers.push_back(scheduler_of(SchedulerKind::kPool, 3));
  return schedulers;
}

// All ranks meet here again and again.
class Meeting {
 public:
  Meeting(Scheduler& scheduler, std::int64_t ranks) : scheduler_(scheduler), ranks_(ranks) {}

  void meet() {
    std::int64_t turn = 0;
    {
      const std::lock_guard lock(mutex_);
      turn = turn_;
      if (++arrived_ == ranks_) {
        arrived_ = 0;
        ++turn_;
        for (std::int64_t rank = 0; rank < ranks_; ++rank) scheduler_.unpark(rank);
        return;
      }
    }
    while (over(turn)) scheduler_.park();
  }

 private:
  bool over(std::int64_t turn) {
    const std::lock_guard lock(mutex_);
    return turn_ == turn;
  }

  Scheduler& scheduler_;
  const std::int64_t ranks_;
  std::mutex mutex_;
  std::int64_t arrived_ = 0;
  std::int64_t turn_ = 0;
};

}  // namespace

TEST_CASE("schedulers have names that parse") {
  for (const SchedulerKind kind : kSchedulerKinds) CHECK(parse_scheduler(to_string(kind)) == kind);
  CHECK(to_string(SchedulerKind::kPool) == "pool");
  CHECK(to_string(SchedulerKind::kThreads) == "threads");
  CHECK(to_string(SchedulerKind::kSeeded) == "seeded");
  CHECK_FALSE(parse_scheduler("coroutines").has_value());
}

TEST_CASE("run() serves every rank once, tells ranks apart, and can be called again") {
  for (const auto& scheduler : all_schedulers()) {
    for (const std::int64_t ranks : {1, 2, 7, 40}) {
      std::vector<std::int64_t> seen(static_cast<std::size_t>(ranks), -1);
      scheduler->run(ranks, [&](std::int64_t rank) {
        seen[static_cast<std::size_t>(rank)] = scheduler->current();
      });
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        CHECK(seen[static_cast<std::size_t>(rank)] == rank);
      }
      CHECK(scheduler->current() == -1);
    }
  }
}

TEST_CASE("ranks meet many times") {
  for (const auto& scheduler : all_schedulers()) {
    Meeting meeting(*scheduler, 6);
    std::atomic<int> sum{0};
    std::atomic<int> wrong{0};
    scheduler->run(6, [&](std::int64_t) {
      for (int i = 1; i <= 50; ++i) {
        sum.fetch_add(1);
        meeting.meet();
        if (sum.load() != 6 * i) ++wrong;
        meeting.meet();
      }
    });
    CHECK(wrong.load() == 0);
  }
}

TEST_CASE("an unpark that comes before the park is not lost") {
  for (const auto& scheduler : all_schedulers()) {
    bool stalled = false;
    scheduler->on_stall([&] { stalled = true; });
    scheduler->run(1, [&](std::int64_t) {
      scheduler->unpark(0);
      scheduler->park();
    });
    CHECK_FALSE(stalled);
  }
}

TEST_CASE("unpark of a rank that has ended is harmless") {
  for (const auto& scheduler : all_schedulers()) {
    scheduler->run(2, [&](std::int64_t rank) {
      if (rank == 0) return;
      scheduler->yield();
      scheduler->unpark(0);
    });
  }
}

TEST_CASE("each rank keeps its own context across switches") {
  for (const auto& scheduler : all_schedulers()) {
    Meeting meeting(*scheduler, 4);
    std::vector<RankContext> contexts(4);
    std::atomic<int> wrong{0};
    scheduler->run(4, [&](std::int64_t rank) {
      RankContext& mine = contexts[static_cast<std::size_t>(rank)];
      mine.rank = rank;
      mine.scheduler = scheduler.get();
      RankContext* before = set_current_rank(&mine);
      for (int i = 0; i < 10; ++i) {
        meeting.meet();
        if (current_rank_or_null() != &mine || scheduler->current() != rank) ++wrong;
      }
      set_current_rank(before);
    });
    CHECK(wrong.load() == 0);
    CHECK(current_rank_or_null() == nullptr);
  }
}

TEST_CASE("throw; in one rank rethrows its own exception while another handles one, too") {
  for (const auto& scheduler : all_schedulers()) {
    constexpr std::int64_t kRanks = 3;
    Meeting meeting(*scheduler, kRanks);
    std::vector<std::string> caught(kRanks);
    std::vector<int> depth(kRanks, -1);
    scheduler->run(kRanks, [&](std::int64_t rank) {
      try {
        try {
          throw std::runtime_error("of rank " + std::to_string(rank));
        } catch (...) {
          // All ranks are here at once; they leave in another order than they came.
          meeting.meet();
          for (std::int64_t i = 0; i < kRanks - rank; ++i) scheduler->yield();
          throw;
        }
      } catch (const std::runtime_error& error) {
        caught[static_cast<std::size_t>(rank)] = error.what();
      }
      depth[static_cast<std::size_t>(rank)] = std::uncaught_exceptions();
    });
    CHECK(caught == std::vector<std::string>{"of rank 0", "of rank 1", "of rank 2"});
    CHECK(depth == std::vector<int>{0, 0, 0});
    CHECK(std::current_exception() == nullptr);
  }
}

TEST_CASE("a switch during unwinding keeps the count of exceptions in flight") {
  struct Switches {
    Scheduler& scheduler;
    int& count;
    ~Switches() {
      scheduler.yield();
      count = std::uncaught_exceptions();
    }
  };
  const auto scheduler = scheduler_of(SchedulerKind::kPool);
  std::vector<int> counts(2, -1);
  int idle = -1;
  scheduler->run(2, [&](std::int64_t rank) {
    if (rank == 1) {
      idle = std::uncaught_exceptions();
      return;
    }
    try {
      const Switches guard{*scheduler, counts[0]};
      throw 1;
    } catch (int) {
      counts[1] = std::uncaught_exceptions();
    }
  });
  CHECK(idle == 0);
  CHECK(counts == std::vector<int>{1, 0});
}

TEST_CASE("when all live ranks are parked the stall handler runs, on no rank") {
  for (const auto& scheduler : all_schedulers()) {
    std::atomic<int> stalls{0};
    std::atomic<bool> released{false};
    std::int64_t on_rank = 5;
    scheduler->on_stall([&] {
      ++stalls;
      on_rank = scheduler->current();
      released = true;
      for (std::int64_t rank = 0; rank < 3; ++rank) scheduler->unpark(rank);
    });
    scheduler->run(3, [&](std::int64_t rank) {
      if (rank == 0) return;  // ended ranks do not keep a stall from being seen
      while (!released) scheduler->park();
    });
    CHECK(stalls.load() == 1);
    CHECK(on_rank == -1);
  }
}

TEST_CASE("a stall that nobody resolves fails on every rank instead of hanging") {
  for (const auto& scheduler : all_schedulers()) {
    std::atomic<int> failed{0};
    scheduler->run(3, [&](std::int64_t) {
      try {
        scheduler->park();
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kInternal) ++failed;
      }
    });
    CHECK(failed.load() == 3);
  }
}

TEST_CASE("block_on: other ranks go on, and a wait outside is no stall") {
  for (const auto& scheduler : all_schedulers()) {
    std::atomic<int> stalls{0};
    scheduler->on_stall([&] { ++stalls; });
    std::atomic<bool> other_ran{false};
    bool waited = false;
    scheduler->run(2, [&](std::int64_t rank) {
      if (rank == 1) {
        other_ran = true;
        return;
      }
      // Ends only when the other rank has run.
      scheduler->block_on([&] {
        while (!other_ran) std::this_thread::yield();
      });
      waited = true;
    });
    CHECK(waited);
    CHECK(stalls.load() == 0);
  }
}

TEST_CASE("block_on passes on what the wait threw") {
  for (const auto& scheduler : all_schedulers()) {
    std::string caught;
    scheduler->run(1, [&](std::int64_t) {
      try {
        scheduler->block_on([] { throw std::runtime_error("no such file"); });
      } catch (const std::runtime_error& error) {
        caught = error.what();
      }
    });
    CHECK(caught == "no such file");
  }
}

TEST_CASE("pool: ranks run in order of readiness on the thread that called run()") {
  const auto scheduler = scheduler_of(SchedulerKind::kPool);
  std::mutex mutex;
  std::vector<std::int64_t> order;
  const auto caller = std::this_thread::get_id();
  int elsewhere = 0;
  scheduler->run(3, [&](std::int64_t rank) {
    for (int i = 0; i < 2; ++i) {
      {
        const std::lock_guard lock(mutex);
        order.push_back(rank);
        if (std::this_thread::get_id() != caller) ++elsewhere;
      }
      scheduler->yield();
    }
  });
  CHECK(order == std::vector<std::int64_t>{0, 1, 2, 0, 1, 2});
  CHECK(elsewhere == 0);
}

TEST_CASE("pool: a rank stays on the thread that started it, whoever wakes it") {
  constexpr std::int64_t kRanks = 9, kWorkers = 3;
  const auto scheduler = scheduler_of(SchedulerKind::kPool, kWorkers);
  Meeting meeting(*scheduler, kRanks);
  std::vector<std::thread::id> threads(kRanks);
  std::atomic<int> moved{0};
  scheduler->run(kRanks, [&](std::int64_t rank) {
    std::thread::id& mine = threads[static_cast<std::size_t>(rank)];
    mine = std::this_thread::get_id();
    for (int i = 0; i < 100; ++i) {
      meeting.meet();
      if (std::this_thread::get_id() != mine) ++moved;
    }
  });
  CHECK(moved.load() == 0);
  CHECK(scheduler->thread_count() == kWorkers);
  for (std::int64_t rank = 0; rank < kRanks; ++rank) {
    CHECK(scheduler->thread_of(rank) == rank / kWorkers);
    const auto first = static_cast<std::size_t>(rank / kWorkers * kWorkers);
    CHECK(threads[static_cast<std::size_t>(rank)] == threads[first]);
  }
  CHECK(threads[0] == std::this_thread::get_id());
  CHECK(threads[0] != threads[3]);
  CHECK(threads[3] != threads[6]);
}

TEST_CASE("pool: no more workers than ranks") {
  const auto scheduler = scheduler_of(SchedulerKind::kPool, 8);
  std::int64_t workers = 0;
  scheduler->run(2, [&](std::int64_t rank) {
    if (rank == 0) workers = scheduler->thread_count();
  });
  CHECK(workers == 2);
}

TEST_CASE("pool: a worker that has ended does not keep a stall of the others from being seen") {
  const auto scheduler = scheduler_of(SchedulerKind::kPool, 2);
  std::atomic<int> stalls{0};
  std::atomic<bool> released{false};
  scheduler->on_stall([&] {
    ++stalls;
    released = true;
    for (std::int64_t rank = 0; rank < 4; ++rank) scheduler->unpark(rank);
  });
  scheduler->run(4, [&](std::int64_t rank) {
    if (rank >= 2) return;
    while (!released) scheduler->park();
  });
  CHECK(stalls.load() == 1);
}

TEST_CASE("draws are splitmix64's, the same on every machine") {
  Draws draws(1234567);
  CHECK(draws.next() == 6457827717110365317u);
  CHECK(draws.next() == 3203168211198807973u);
  CHECK(draws.next() == 9817491932198370423u);
  Draws few(0);
  std::vector<int> counts(3);
  for (int i = 0; i < 3000; ++i) ++counts[few.below(3)];
  for (const int count : counts) CHECK(count > 900);
}

namespace {

// The ranks in the order in which they ran, three turns each.
std::vector<std::int64_t> order_under(std::uint64_t seed, std::int64_t ranks) {
  SchedulerOptions options;
  options.kind = SchedulerKind::kSeeded;
  options.seed = seed;
  const auto scheduler = make_scheduler(options);
  std::vector<std::int64_t> order;
  std::mutex mutex;
  scheduler->run(ranks, [&](std::int64_t rank) {
    for (int turn = 0; turn < 3; ++turn) {
      {
        const std::lock_guard lock(mutex);
        order.push_back(rank);
      }
      scheduler->interleave();
    }
  });
  return order;
}

}  // namespace

TEST_CASE("B-4 seeded: a seed is one interleaving, and seeds reach every order") {
  CHECK(order_under(17, 6) == order_under(17, 6));
  CHECK(order_under(17, 6).size() == 18);
  std::set<std::vector<std::int64_t>> first_turns;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<std::int64_t> order;
    for (const std::int64_t rank : order_under(seed, 3)) {
      if (std::find(order.begin(), order.end(), rank) == order.end()) order.push_back(rank);
    }
    first_turns.insert(order);
  }
  CHECK(first_turns.size() == 6);
}

TEST_CASE("interleave() lets other ranks in under seeded only") {
  for (const SchedulerKind kind : {SchedulerKind::kPool, SchedulerKind::kSeeded}) {
    const auto scheduler = scheduler_of(kind);
    std::atomic<int> switches = 0;
    std::atomic<std::int64_t> last = -1;
    scheduler->run(4, [&](std::int64_t rank) {
      for (int i = 0; i < 10; ++i) {
        if (last.exchange(rank) != rank) ++switches;
        scheduler->interleave();
      }
    });
    CHECK((switches > 4) == (kind == SchedulerKind::kSeeded));
  }
}

TEST_CASE("pool: stacks are deep enough to recurse and are used again") {
  const auto scheduler = scheduler_of(SchedulerKind::kPool);
  const std::function<int(int)> deep = [&](int level) {
    volatile char frame[512] = {};
    frame[0] = static_cast<char>(level);
    return level == 0 ? 0 : deep(level - 1) + (frame[0] == static_cast<char>(level) ? 1 : 0);
  };
  for (int run = 0; run < 3; ++run) {
    std::vector<int> depth(4);
    scheduler->run(4, [&](std::int64_t rank) {
      scheduler->yield();
      depth[static_cast<std::size_t>(rank)] = deep(150);
      scheduler->yield();
    });
    CHECK(depth == std::vector<int>{150, 150, 150, 150});
  }
}

TEST_CASE("pool: when memory maps run out the error names the limit, before any rank starts") {
  std::ifstream file("/proc/sys/vm/max_map_count");
  std::int64_t maps = 0;
  file >> maps;
  // A sanitizer needs maps of its own and dies without.
  if (sanitizer::kActive || maps == 0 || maps > 200'000) {
    MESSAGE("not tried: vm.max_map_count is " << maps << ", sanitizer: " << sanitizer::kActive);
    return;
  }
  const auto scheduler = scheduler_of(SchedulerKind::kPool);
  std::int64_t started = 0;
  std::string limit;
  try {
    scheduler->run(maps / 2 + 1000, [&](std::int64_t) { ++started; });
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kRuntime);
    REQUIRE(error.find("limit") != nullptr);
    limit = *error.find("limit");
  }
  CHECK(started == 0);
  CHECK(limit.find("vm.max_map_count is " + std::to_string(maps)) != std::string::npos);
}
