// Ranks are dealt to workers in ranges and stay there. A worker runs its ready ranks one after the
// other; parking switches directly to the next fiber and not through a scheduler's own stack. Only
// three actions cross threads and take the mutex: the inbox of a worker, its sleep, and the search
// for a stall.
//
// A stall is the state in which every worker sleeps or has ended, no inbox holds anything and
// nothing outside of the library is waited for: then nothing can wake a rank any more, and the
// stall handler has to report why (B-6). A permit makes a wake-up that comes before its park()
// count, so that none is lost.
#include "sim/schedule/pool_scheduler.h"

#include <algorithm>
#include <exception>
#include <future>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "sim/schedule/jump.h"
#include "sim/schedule/stack_overflow.h"

namespace shardlab {

namespace context = boost::context::detail;

// Inlined by force, all five: a rendezvous makes each of these calls once per rank.

PoolScheduler::Worker* PoolScheduler::worker_here() const {
  const RankContext* running = current_rank_or_null();
  return running != nullptr && running->scheduler == this ? &worker_of(running->rank) : nullptr;
}

void PoolScheduler::fetch_next(const Worker& worker) const {
  if (worker.ready.empty()) return;
  const Fiber& next = fibers_[static_cast<std::size_t>(worker.ready.front())];
  // Saved registers, and the frames of a rank that waits for a collective.
  constexpr int kLines = 6;
  const auto* stack = static_cast<const std::byte*>(next.machine);
  for (int i = 0; i < kLines; ++i) __builtin_prefetch(stack + i * 64, 1);
  __builtin_prefetch(next.context);
}

PoolScheduler::Fiber& PoolScheduler::next_of(Worker& worker) {
  if (worker.mail.load(std::memory_order_acquire)) drain_inbox(worker);
  if (worker.ready.empty()) return worker.main;
  Fiber& next = fibers_[static_cast<std::size_t>(worker.ready.pop())];
  fetch_next(worker);
  return next;
}

RankContext* PoolScheduler::resume(Worker& worker, Fiber& next) {
  worker.running = &next;
  next.state = State::kRunning;
  // Else `throw;` in one rank would rethrow the exception that another one handles.
  *worker.exceptions = next.exceptions;
  return set_current_rank(next.context);
}

void PoolScheduler::wake(Worker& worker, Fiber& fiber) {
  if (fiber.state == State::kParked) {
    fiber.state = State::kReady;
    worker.ready.push(fiber.rank);
  } else {
    fiber.permit = true;
  }
}

/// First frame of every fiber.
struct PoolScheduler::Entry {
  static void enter(context::transfer_t transfer) {
    auto* left = static_cast<Fiber*>(transfer.data);
    Worker& worker = *left->worker;
    PoolScheduler* self = nullptr;
    const std::function<void(std::int64_t)>* body = nullptr;
    std::int64_t rank = -1;
    {
      const sanitizer::Section section;
      left->machine = transfer.fctx;
      Fiber& fiber = *worker.running;
      sanitizer::after_switch(fiber.sanitizer, left->stack);
      self = static_cast<PoolScheduler*>(fiber.identity.scheduler);
      body = self->body_;
      rank = fiber.rank;
    }
    (*body)(rank);
    leave(*self, worker);
  }

  [[noreturn]] static void leave(PoolScheduler& self, Worker& worker) {
    sanitizer::release(&self);
    Fiber* fiber = nullptr;
    Fiber* next = nullptr;
    void* machine = nullptr;
    sanitizer::FiberState target;
    {
      const sanitizer::Section section;
      fiber = worker.running;
      fiber->state = State::kEnded;
      --worker.live;
      next = &self.next_of(worker);
      self.resume(worker, *next);
      machine = next->machine;
      target = next->sanitizer;
      sanitizer::before_last_switch(next->stack);
    }
    sanitizer::switch_fiber(target);
    jump(machine, fiber);
    std::terminate();
  }
};

namespace {

// About 20 us: the time to wake a thread.
constexpr int kSpins = 1000;

void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

std::int64_t PoolScheduler::current() const {
  return worker_here() != nullptr ? current_rank().rank : -1;
}

std::int64_t PoolScheduler::thread_of(std::int64_t rank) const {
  return &worker_of(rank) - workers_.get();
}

void PoolScheduler::start(std::size_t ranks, std::size_t workers) {
  fibers_ = std::vector<Fiber>(ranks);
  workers_ = std::make_unique<Worker[]>(workers);
  thread_count_ = working_ = static_cast<std::int64_t>(workers);
  asleep_ = outside_waits_ = 0;
  broken_ = false;
  for (std::size_t i = 0; i < workers; ++i) {
    Worker& worker = workers_[i];
    worker.first = i * ranks / workers;
    worker.count = (i + 1) * ranks / workers - worker.first;
    worker.live = static_cast<std::int64_t>(worker.count);
    worker.main.worker = &worker;
    worker.running = &worker.main;
    worker.ready.reset(ranks, seed_);
  }
  for (std::size_t i = 0, next = 0; i < ranks; ++i) {
    if (i == workers_[next].first + workers_[next].count) ++next;
    Fiber& fiber = fibers_[i];
    fiber.rank = static_cast<std::int32_t>(i);
    fiber.worker = &workers_[next];
    fiber.stack = stacks_.stack(i);
    sanitizer::unpoison(fiber.stack);
    fiber.machine = make_fiber(fiber.stack.top(), fiber.stack.size_bytes, &Entry::enter);
    fiber.identity.rank = fiber.rank;
    fiber.identity.world_size = static_cast<std::int64_t>(ranks);
    fiber.identity.scheduler = this;
    fiber.context = &fiber.identity;
    fiber.worker->ready.push(fiber.rank);
  }
  // They see all earlier writes.
  for (Fiber& fiber : fibers_) sanitizer::create_fiber(fiber.sanitizer);
}

void PoolScheduler::run(std::int64_t ranks, const std::function<void(std::int64_t)>& body) {
  check_invariant(ranks >= 1 && body_ == nullptr, "one run at a time, of at least one rank");
  sanitizer::leave_single_thread();
  stacks_.reserve(static_cast<std::size_t>(ranks));
  // Threads first, since ranks are spread over the threads that the system gives.
  std::promise<void> ready;
  const std::shared_future<void> started = ready.get_future().share();
  std::vector<std::thread> threads;
  try {
    for (std::size_t i = 1; i < static_cast<std::size_t>(std::min(most_workers_, ranks)); ++i) {
      threads.emplace_back([this, i, started] {
        started.wait();
        serve(workers_[i]);
      });
    }
  } catch (const std::system_error&) {
    // Fewer workers then: values do not depend on it.
  }
  body_ = &body;
  start(static_cast<std::size_t>(ranks), threads.size() + 1);
  ready.set_value();
  serve(workers_[0]);
  for (std::thread& thread : threads) thread.join();
  body_ = nullptr;
  sanitizer::acquire(this);
  for (Fiber& fiber : fibers_) sanitizer::destroy_fiber(fiber.sanitizer);
}

void PoolScheduler::serve(Worker& worker) {
  const OverflowWatch watch;
  // The same address for all fibers of an OS thread; read once, because the call costs as much as a
  // switch.
  {
    const sanitizer::Section section;
    worker.exceptions = exception_state();
    sanitizer::adopt_thread(worker.main.sanitizer);
  }
  loop(worker);
  Lock lock(mutex_);
  --working_;
  resolve_stalls(lock);
}

void PoolScheduler::loop(Worker& worker) {
  const sanitizer::Section section;
  while (worker.live > 0) {
    Fiber& next = next_of(worker);
    if (&next != &worker.main) {
      switch_to(worker, next);
    } else {
      idle(worker);
    }
  }
}

void PoolScheduler::idle(Worker& worker) {
  for (int i = 0; thread_count_ > 1 && i < kSpins; ++i) {
    if (worker.mail.load(std::memory_order_acquire)) return;
    pause_briefly();
  }
  Lock lock(mutex_);
  if (!worker.inbox.empty()) return;
  worker.asleep = true;
  ++asleep_;
  resolve_stalls(lock);
  worker.woken.wait(lock, [&worker] { return !worker.asleep; });
}

void PoolScheduler::resolve_stalls(Lock& lock) {
  // While the handler wakes ranks one by one, woken ones may end or park again before it has
  // reached the others: that is not yet another stall; it is checked afterwards.
  if (resolving_) return;
  resolving_ = true;
  while (stalled()) {
    const std::uint64_t wakes = wakes_;
    if (stall_handler_) {
      lock.unlock();
      stall_handler_();
      lock.lock();
    }
    if (wakes_ != wakes) continue;
    broken_ = true;
    for (const Fiber& fiber : fibers_) {
      const std::int64_t rank = fiber.rank;
      post_locked(*fiber.worker, {&rank, 1});
    }
  }
  resolving_ = false;
}

void PoolScheduler::switch_to(Worker& worker, Fiber& next) {
  Fiber& self = *worker.running;
  if (&self == &next) {
    self.state = State::kRunning;
    return;
  }
  self.exceptions = *worker.exceptions;
  self.context = resume(worker, next);
  sanitizer::before_switch(self.sanitizer, next.stack);
  // From here to the jump TSan already takes this for the next fiber: nothing shared is touched.
  void* machine = next.machine;
  sanitizer::switch_fiber(next.sanitizer);
  const context::transfer_t transfer = jump(machine, &self);
  // Back, perhaps from another fiber than `next`.
  auto* left = static_cast<Fiber*>(transfer.data);
  left->machine = transfer.fctx;
  sanitizer::after_switch(self.sanitizer, left->stack);
}

void PoolScheduler::park() {
  const sanitizer::Section section;
  Worker* here = worker_here();
  check_invariant(here != nullptr, "park() is for ranks");
  Worker& worker = *here;
  Fiber& self = *worker.running;
  if (!self.permit) {
    self.state = State::kParked;
    switch_to(worker, next_of(worker));
  }
  self.permit = false;
  check_invariant(!broken_, "all ranks were parked and nothing woke one");
}

void PoolScheduler::unpark(std::int64_t rank) { unpark_all({&rank, 1}); }

void PoolScheduler::unpark_all(std::span<const std::int64_t> ranks) {
  const sanitizer::Section section;
  Worker* here = worker_here();
  while (!ranks.empty()) {
    Worker& worker = worker_of(ranks.front());
    std::size_t count = 0;
    if (&worker == here) {
      wake(worker, fibers_[static_cast<std::size_t>(ranks[count++])]);
    } else {
      while (count < ranks.size() && &worker_of(ranks[count]) == &worker) ++count;
      const Lock lock(mutex_);
      post_locked(worker, ranks.first(count));
    }
    ranks = ranks.subspan(count);
  }
}

void PoolScheduler::post_locked(Worker& worker, std::span<const std::int64_t> ranks) {
  const bool asleep = worker.asleep;
  for (const std::int64_t rank : ranks) {
    // While a worker sleeps, the states of its ranks can be read: they are parked or have ended.
    if (asleep && fibers_[static_cast<std::size_t>(rank)].state != State::kParked) continue;
    worker.inbox.push_back(static_cast<std::int32_t>(rank));
  }
  if (worker.inbox.empty()) return;
  worker.mail.store(true, std::memory_order_release);
  if (!asleep) return;
  ++wakes_;
  worker.asleep = false;
  --asleep_;
  worker.woken.notify_one();
}

void PoolScheduler::drain_inbox(Worker& worker) {
  const Lock lock(mutex_);
  for (const std::int32_t rank : worker.inbox) {
    wake(worker, fibers_[static_cast<std::size_t>(rank)]);
  }
  worker.inbox.clear();
  worker.mail.store(false, std::memory_order_relaxed);
}

void PoolScheduler::yield() {
  const sanitizer::Section section;
  Worker* here = worker_here();
  check_invariant(here != nullptr, "yield() is for ranks");
  Worker& worker = *here;
  Fiber& self = *worker.running;
  self.state = State::kReady;
  worker.ready.push(self.rank);
  switch_to(worker, next_of(worker));
}

void PoolScheduler::explore() {
  if (worker_here() != nullptr) yield();
}

void PoolScheduler::count_outside(std::int64_t change) {
  const Lock lock(mutex_);
  outside_waits_ += change;
}

void PoolScheduler::block_on(const std::function<void()>& wait) {
  const std::int64_t rank = current();
  check_invariant(rank >= 0, "block_on() is for ranks");
  std::exception_ptr failure;
  std::atomic<bool> done{false};
  count_outside(1);
  // A thread per wait: a call that blocks outside of the library takes far longer than a thread.
  std::thread helper([&] {
    try {
      wait();
    } catch (...) {
      failure = std::current_exception();
    }
    done.store(true, std::memory_order_release);
    unpark(rank);
  });
  while (!done.load(std::memory_order_acquire)) park();
  count_outside(-1);
  helper.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace shardlab
