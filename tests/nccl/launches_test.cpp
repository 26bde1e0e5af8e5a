// Launches that wait for their end, communicators that do not block, errors of the device that
// stay, and calls whose sizes do not repeat: as the environment and NCCL have them.
#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>

#include "backends/nccl/library.h"
#include "tests/nccl/nccl_ranks.h"
#include "tests/support/local_tensor.h"

using namespace shardlab;
using namespace shardlab::nccl;

namespace {

// For the processes that are forked next.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

Tensor numbers(std::int64_t count) {
  return local_tensor({count}, DType::kF32, Values(static_cast<std::size_t>(count), 1));
}

void reduce(Communicator& group, std::int64_t count) {
  group.all_reduce(numbers(count), ReduceOp::kSum, Issue::kWait);
}

void await_failure(const Rank& me) {
  while (me.common.failed_rank == 0) std::this_thread::yield();
}

}  // namespace

TEST_CASE("B-18 nccl: a rank that is kept inside of a launch ends with the reason") {
  const LongDeadline nobody_waits_for_ever;
  const Variable blocking("CUDA_LAUNCH_BLOCKING", "1");
  const auto begin = std::chrono::steady_clock::now();
  const auto texts = on_nccl_ranks(2, [](Rank& me) {
    for (int i = 0; i < 3; ++i) reduce_ones(me.world);
    if (me.rank == 0) return reduce_ones(me.world);  // rank 1 never comes
    await_failure(me);
    std::this_thread::sleep_for(std::chrono::seconds(4));
  });
  CHECK(texts[0] == "rank 0 failed: rank 0 is inside of a launch");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
}

TEST_CASE("B-18 nccl: launches that wait for their end give what others give") {
  const Variable blocking("CUDA_LAUNCH_BLOCKING", "1");
  const auto texts = on_nccl_ranks(3, [](Rank& me) {
    for (int i = 0; i < 10; ++i) reduce(me.world, 1 + i % 3);
    const auto half = me.world.split(me.rank % 2, me.rank, "half");
    reduce(*half, 7);
  });
  CHECK(joined(texts) == "");
}

TEST_CASE("B-18 nccl: communicators that the environment makes not block are polled") {
  const Variable not_blocking("NCCL_COMM_BLOCKING", "0");
  const auto texts = on_nccl_ranks(3, [](Rank& me) {
    for (int i = 0; i < 10; ++i) reduce(me.world, 1 + i % 3);
    const auto half = me.world.split(me.rank % 2, me.rank, "half");
    reduce(*half, 7);
    reduce(*half, 7);
    const Tensor x = numbers(3);
    const Lengths64 ones(3, 1);
    me.world.all_to_all(x, 0, ones, 0, ones);
    me.world.barrier();
    me.check(threads_of_double() > 0, "they do block");
  });
  CHECK(joined(texts) == "");
}

TEST_CASE("B-18 nccl: a rank that does not come is missed where communicators do not block") {
  const LongDeadline nobody_waits_for_ever;
  const Variable not_blocking("NCCL_COMM_BLOCKING", "0");
  const auto texts = on_nccl_ranks(2, [](Rank& me) {
    for (int i = 0; i < 3; ++i) reduce_ones(me.world);
    if (me.rank == 0) return reduce_ones(me.world);
    me.session.bell()->ring();
    await_failure(me);
  });
  CHECK(joined(texts) ==
        joined({"rank 0 has waited 0.5 s for all_reduce(f32[4], sum) on group world", ""}));
}

TEST_CASE("B-18 nccl: an error of the device that stays is told, though the rank asks nothing") {
  const LongDeadline nobody_waits_for_ever;
  const auto texts = on_nccl_ranks(2, [](Rank& me) {
    reduce_ones(me.world);
    me.session.bell()->ring();
    if (me.rank == 0) return reduce_ones(me.world);
    setenv("SHARDLAB_NCCL_DOUBLE_BREAKS", "2", 1);
    // Its next launch breaks the device, and it computes on without a look at it.
    me.world.all_reduce(numbers(4), ReduceOp::kSum, Issue::kAsync);
    await_failure(me);
  });
  CAPTURE(texts[1]);
  CHECK(texts[0] == "rank 1 failed");
}

TEST_CASE("B-18 nccl: the watching thread names an error of the device that stays") {
  const LongDeadline nobody_waits_for_ever;
  const auto texts = on_nccl_ranks(2, [](Rank& me) {
    reduce_ones(me.world);
    me.session.bell()->ring();
    if (me.rank == 1) return await_failure(me);
    setenv("SHARDLAB_NCCL_DOUBLE_BREAKS", "1", 1);
    reduce_ones(me.world);
  });
  CAPTURE(texts[0]);
  CHECK(texts[0].find("an illegal memory access was encountered") != std::string::npos);
}

TEST_CASE("B-18 nccl: calls whose sizes never repeat share one thread") {
  const auto texts = on_nccl_ranks(2, [](Rank& me) {
    static std::set<long> threads;
    on_all_reduce() = [] { threads.insert(syscall(SYS_gettid)); };
    for (int i = 1; i <= 100; ++i) reduce(me.world, i);
    me.check(counts().elsewhere == 100, "each is a first call");
    me.check(threads.size() == 1, "one thread");
  });
  CHECK(joined(texts) == "");
}

TEST_CASE("B-18 nccl: messages to a known rank are no first calls, whatever their length") {
  const auto texts = on_nccl_ranks(3, [](Rank& me) {
    for (std::int64_t i = 1; i <= 20; ++i) {
      const Lengths64 lengths{i, 2 * i, 3};
      const Lengths64 received(3, lengths[static_cast<std::size_t>(me.rank)]);
      me.world.all_to_all(numbers(3 * i + 3), 0, lengths, 0, received);
    }
    me.check(counts().send == 40, "two messages each");
    me.check(counts().sent_elsewhere == 2, "threads for those after the first");
  });
  CHECK(joined(texts) == "");
}

TEST_CASE("B-18 nccl: a reduce to one rank is NCCL's own, and reaches that rank") {
  const auto texts = on_nccl_ranks(3, [](Rank& me) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
      const Tensor x = local_tensor({2}, DType::kF32, {1.0 + static_cast<double>(me.rank), -1});
      const Tensor y = me.world.reduce(x, 1, op);
      const Values expected = op == ReduceOp::kSum ? Values{6, -3} : Values{3, -1};
      me.check(y.defined() == (me.rank == 1), "only the destination gets it");
      if (y.defined()) me.check(values_of(y) == expected, "another result");
    }
    me.check(counts().all_reduce == 0, "an all_reduce in place of a reduce");
  });
  CHECK(joined(texts) == "");
}

TEST_CASE("nccl: a library that is too old is refused by name") {
  const auto texts = on_processes(1, [](int) -> std::string {
    setenv("SHARDLAB_NCCL_DOUBLE_VERSION", "21805", 1);
    try {
      // Not the path under which the process has opened it.
      const std::string path = std::getenv("SHARDLAB_NCCL_LIBRARY");
      open_library("/proc/self/root" + path);
    } catch (const Error& error) {
      return error.text();
    }
    return "opened";
  });
  CHECK(
      texts[0] ==
      "backend nccl finds no usable NCCL: version 2.18.5 may hang where a communicator is aborted "
      "beside others\n  fix         install NCCL 2.19.1 or newer");
}
