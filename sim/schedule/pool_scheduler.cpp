#include "sim/schedule/pool_scheduler.h"

#include <cxxabi.h>

#include <exception>
#include <thread>
#include <utility>

#include "base/error.h"
#include "sim/schedule/jump.h"

namespace shardlab {

namespace context = boost::context::detail;

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

bool PoolScheduler::on_worker() const {
  const RankContext* running = current_rank_or_null();
  return running != nullptr && running->scheduler == this;
}

std::int64_t PoolScheduler::current() const { return on_worker() ? current_rank().rank : -1; }

void PoolScheduler::start(std::int64_t ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  stacks_.reserve(count);
  fibers_ = std::vector<Fiber>(count);
  worker_.ready.reset(count);
  worker_.live = ranks;
  // The same address for all fibers of an OS thread; read once, because the call costs as much as a
  // switch.
  worker_.exceptions = reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
  worker_.main.worker = &worker_;
  worker_.main.stack = {};
  worker_.running = &worker_.main;
  sanitizer::adopt_thread(worker_.main.sanitizer);
  broken_ = false;
  for (std::size_t i = 0; i < count; ++i) {
    Fiber& fiber = fibers_[i];
    fiber.rank = static_cast<std::int32_t>(i);
    fiber.worker = &worker_;
    fiber.stack = stacks_.stack(i);
    sanitizer::unpoison(fiber.stack);
    fiber.machine =
        context::make_fcontext(fiber.stack.top(), fiber.stack.size_bytes, &Entry::enter);
    fiber.identity.rank = fiber.rank;
    fiber.identity.world_size = ranks;
    fiber.identity.scheduler = this;
    fiber.context = &fiber.identity;
    sanitizer::create_fiber(fiber.sanitizer);  // sees all that is written before
    worker_.ready.push(fiber.rank);
  }
}

void PoolScheduler::run(std::int64_t ranks, const std::function<void(std::int64_t)>& body) {
  check_invariant(ranks >= 1 && body_ == nullptr, "one run at a time, of at least one rank");
  start(ranks);
  body_ = &body;
  loop(worker_);
  body_ = nullptr;
  sanitizer::acquire(this);
  for (Fiber& fiber : fibers_) sanitizer::destroy_fiber(fiber.sanitizer);
}

void PoolScheduler::loop(Worker& worker) {
  const sanitizer::Section section;
  while (worker.live > 0) {
    Fiber& next = next_of(worker);
    if (&next != &worker.main) {
      switch_to(worker, next);
    } else if (outside_waits_ > 0) {
      std::unique_lock lock(inbox_mutex_);
      inbox_filled_.wait(lock, [this] { return !inbox_.empty(); });
    } else {
      stall(worker);
    }
  }
}

void PoolScheduler::stall(Worker& worker) {
  if (stall_handler_) stall_handler_();
  drain_inbox(worker);
  if (!worker.ready.empty()) return;
  broken_ = true;
  for (Fiber& fiber : fibers_) wake(worker, fiber);
}

PoolScheduler::Fiber& PoolScheduler::next_of(Worker& worker) {
  if (inbox_waiting_.load(std::memory_order_acquire)) drain_inbox(worker);
  if (worker.ready.empty()) return worker.main;
  return fibers_[static_cast<std::size_t>(worker.ready.pop())];
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

void PoolScheduler::park() {
  const sanitizer::Section section;
  Worker& worker = worker_;
  Fiber& self = *worker.running;
  check_invariant(self.rank >= 0, "park() is for ranks");
  if (!self.permit) {
    self.state = State::kParked;
    switch_to(worker, next_of(worker));
  }
  self.permit = false;
  check_invariant(!broken_, "all ranks were parked and nothing woke one");
}

void PoolScheduler::unpark(std::int64_t rank) {
  const sanitizer::Section section;
  if (on_worker()) {
    wake(worker_, fibers_[static_cast<std::size_t>(rank)]);
    return;
  }
  const std::lock_guard lock(inbox_mutex_);
  inbox_.push_back(static_cast<std::int32_t>(rank));
  inbox_waiting_.store(true, std::memory_order_release);
  inbox_filled_.notify_one();
}

void PoolScheduler::drain_inbox(Worker& worker) {
  const std::lock_guard lock(inbox_mutex_);
  for (const std::int32_t rank : inbox_) wake(worker, fibers_[static_cast<std::size_t>(rank)]);
  inbox_.clear();
  inbox_waiting_.store(false, std::memory_order_relaxed);
}

void PoolScheduler::yield() {
  const sanitizer::Section section;
  check_invariant(on_worker(), "yield() is for ranks");
  Worker& worker = worker_;
  Fiber& self = *worker.running;
  self.state = State::kReady;
  worker.ready.push(self.rank);
  switch_to(worker, next_of(worker));
}

void PoolScheduler::count_outside(std::int64_t change) {
  const sanitizer::Section section;
  outside_waits_ += change;
}

void PoolScheduler::block_on(const std::function<void()>& wait) {
  const std::int64_t rank = current();
  check_invariant(rank >= 0, "block_on() is for ranks");
  std::exception_ptr failure;
  std::atomic<bool> done{false};
  count_outside(1);
  // A thread per wait: what blocks outside of the library costs far more than a thread.
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
