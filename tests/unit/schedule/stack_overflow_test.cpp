// A process of its own runs over the end of a rank's stack.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>

#include "sim/schedule/sanitizer.h"
#include "sim/world/spmd.h"

using namespace shardlab;

namespace {

struct Ended {
  int signal = 0;  // 0: by itself
  std::string told;
};

// Output of a child that runs `body` on stderr, and its end.
Ended run_apart(const std::function<void()>& body) {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);  // not doctest's
    dup2(ends[1], STDERR_FILENO);
    body();
    _exit(0);
  }
  close(ends[1]);
  Ended ended;
  std::array<char, 4096> part;
  for (ssize_t count = 0; (count = read(ends[0], part.data(), part.size())) > 0;) {
    ended.told.append(part.data(), static_cast<std::size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  return ended;
}

void run_ranks(const WorldOptions& options, std::size_t local_bytes) {
  spmd(options, [&](RankContext& rank) {
    if (rank.rank != 1) return;
    // The lowest byte first, which is far beyond the end.
    auto* local = static_cast<volatile char*>(__builtin_alloca(local_bytes));
    for (std::size_t i = 0; i < local_bytes; i += 512) local[i] = 1;
  });
}

}  // namespace

TEST_CASE("B-17 a rank that uses up its stack is told, with its rank, before the program ends") {
  if (sanitizer::kActive) return;  // they report it themselves
  for (const std::int64_t workers : {1, 3}) {
    WorldOptions options;
    options.ranks = 3;
    options.schedule.workers = workers;
    CHECK(run_apart([&] { run_ranks(options, 512 * 1024); }).signal == 0);
    const Ended ended = run_apart([&] { run_ranks(options, 1536 * 1024); });
    CHECK(ended.signal == SIGSEGV);
    CHECK(ended.told.starts_with("error: rank 1 has used up its stack of 1024 KiB\n"));
    CHECK(ended.told.find("set WorldOptions::schedule.stack_bytes") != std::string::npos);
    // Far below the end, beyond the length of a stack.
    const Ended far = run_apart([&] { run_ranks(options, std::size_t{12} << 20); });
    CHECK(far.told.starts_with("error: rank 1 has used up its stack of 1024 KiB\n"));
    options.schedule.stack_bytes = 4 << 20;
    CHECK(run_apart([&] { run_ranks(options, 1536 * 1024); }).signal == 0);
  }
}

TEST_CASE("another fault is not told as that, and comes to who handled it before") {
  if (sanitizer::kActive) return;
  const auto faults = [](RankContext&) { *static_cast<volatile int*>(nullptr) = 1; };
  const auto is_sent_one = [](RankContext&) { raise(SIGSEGV); };
  for (const std::function<void(RankContext&)>& body :
       {std::function<void(RankContext&)>(faults), {is_sent_one}}) {
    const Ended ended = run_apart([&] {
      struct sigaction mine = {};
      mine.sa_handler = [](int) {
        static_cast<void>(!write(STDERR_FILENO, "mine", 4));
        _exit(0);
      };
      sigaction(SIGSEGV, &mine, nullptr);
      spmd(1, body);
    });
    CHECK(ended.signal == 0);
    CHECK(ended.told == "mine");
  }
}
