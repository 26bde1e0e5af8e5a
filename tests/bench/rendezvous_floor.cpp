#include "tests/bench/rendezvous_floor.h"

#include <algorithm>
#include <atomic>
#include <boost/context/detail/fcontext.hpp>
#include <ctime>
#include <vector>

#include "sim/schedule/exception_state.h"
#include "sim/schedule/fiber_stack.h"
#include "sim/schedule/jump.h"

namespace shardlab {

namespace {

namespace context = boost::context::detail;

struct Fiber {
  void* machine = nullptr;
  ExceptionState exceptions;
  bool parked = false;
};

// Rank 0 is the thread itself.
class Loop {
 public:
  Loop(std::int64_t ranks, std::int64_t meetings, Switch how, const StackPool& stacks)
      : meetings_(meetings),
        how_(how),
        fibers_(static_cast<std::size_t>(ranks)),
        ring_(static_cast<std::size_t>(ranks)),
        exceptions_(exception_state()) {
    for (std::size_t i = 1; i < fibers_.size(); ++i) {
      const FiberStack stack = stacks.stack(i);
      const auto make = how == Switch::kPlain ? context::make_fcontext : make_fiber;
      fibers_[i].machine = make(stack.top(), stack.size_bytes, &enter);
      push(i);
    }
  }

  void run() {
    for (std::int64_t i = 0; i < meetings_; ++i) meet();
    // The other fibers end one by one.
    while (head_ != tail_) switch_away(0);
  }

 private:
  static void enter(context::transfer_t transfer) {
    Loop& loop = *static_cast<Loop*>(transfer.data);
    loop.fibers_[loop.left_].machine = transfer.fctx;
    for (std::int64_t i = 0; i < loop.meetings_; ++i) loop.meet();
    loop.push(0);
    loop.switch_away(loop.running_);
  }

  void push(std::size_t rank) { ring_[tail_++ % ring_.size()] = rank; }

  [[gnu::noinline]] void meet() {
    const std::int64_t turn = turn_.load(std::memory_order_acquire);
    const std::size_t self = running_;
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == fibers_.size()) {
      arrived_.store(0, std::memory_order_relaxed);
      turn_.store(turn + 1, std::memory_order_release);
      for (std::size_t i = 0; i < fibers_.size(); ++i) {
        if (!fibers_[i].parked) continue;
        fibers_[i].parked = false;
        push(i);
      }
      return;
    }
    while (turn_.load(std::memory_order_acquire) == turn) {
      fibers_[self].parked = true;
      switch_away(self);
    }
  }

  [[gnu::noinline]] void switch_away(std::size_t self) {
    Fiber& next = fibers_[running_ = ring_[head_++ % ring_.size()]];
    if (running_ == self) return;
    fibers_[self].exceptions = *exceptions_;
    *exceptions_ = next.exceptions;
    left_ = self;
    const context::transfer_t transfer = how_ == Switch::kPlain
                                             ? context::jump_fcontext(next.machine, this)
                                             : jump(next.machine, this);
    fibers_[left_].machine = transfer.fctx;
  }

  const std::int64_t meetings_;
  const Switch how_;
  std::vector<Fiber> fibers_;
  std::vector<std::size_t> ring_;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
  std::size_t running_ = 0;
  std::size_t left_ = 0;
  ExceptionState* exceptions_;
  std::atomic<std::size_t> arrived_{0};
  std::atomic<std::int64_t> turn_{0};
};

double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

double floor_of_rendezvous(std::int64_t ranks, Switch how) {
  StackPool stacks(64 * 1024);
  stacks.reserve(static_cast<std::size_t>(ranks));
  const std::int64_t meetings = 200'000 / ranks;
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    Loop loop(ranks, meetings, how, stacks);
    const double begin = now();
    loop.run();
    best = std::min(best, (now() - begin) / static_cast<double>(meetings));
  }
  return best;
}

}  // namespace shardlab
