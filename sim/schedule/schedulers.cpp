// Schedulers by name. `seeded` is the pool with one worker that draws the next rank.
#include "sim/schedule/schedulers.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/rank_context.h"
#include "sim/schedule/pool_scheduler.h"

namespace shardlab {

namespace {

// Threads wait behind a gate until all exist, so that a system which cannot give enough of them
// refuses the run instead of hanging it. A stall is found by counting: as many ranks are parked as
// are alive.

/// Costs a thread of the system per rank, so that it is for debugging and for sanitizers.
class ThreadScheduler final : public Scheduler {
 public:
  void run(std::int64_t ranks, const std::function<void(std::int64_t)>& body) override {
    check_invariant(ranks >= 1, "a run has at least one rank");
    seats_ = std::make_unique<Seat[]>(static_cast<std::size_t>(ranks));
    thread_count_ = live_ = ranks;
    parked_ = 0;
    broken_ = false;
    resolving_ = false;
    gate_ = Gate::kClosed;
    std::vector<std::thread> threads;
    threads.reserve(static_cast<std::size_t>(ranks));
    std::string refusal;
    try {
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([this, rank, ranks, &body] { serve(rank, ranks, body); });
      }
    } catch (const std::system_error& error) {
      refusal = error.what();
    }
    open(refusal.empty() ? Gate::kOpen : Gate::kCancelled);
    const std::size_t started = threads.size();
    for (std::thread& thread : threads) thread.join();
    if (!refusal.empty()) {
      throw Error(ErrorKind::kRuntime,
                  fmt::format("no thread for rank {} of {}: {}", started, ranks, refusal))
          .with("fix", "scheduler pool, which needs no thread per rank, or fewer ranks");
    }
  }
  void park() override {
    const std::int64_t rank = current();
    check_invariant(rank >= 0, "park() is for ranks");
    Seat& seat = seats_[static_cast<std::size_t>(rank)];
    std::unique_lock lock(mutex_);
    if (!seat.permit) {
      seat.parked = true;
      ++parked_;
      resolve_stalls(lock);
      seat.woken.wait(lock, [&seat] { return !seat.parked; });
    }
    seat.permit = false;
    check_invariant(!broken_, "all ranks were parked and nothing woke one");
  }
  void unpark(std::int64_t rank) override { unpark_all({&rank, 1}); }
  void unpark_all(std::span<const std::int64_t> ranks) override {
    {
      const std::lock_guard lock(mutex_);
      for (const std::int64_t rank : ranks) wake(seats_[static_cast<std::size_t>(rank)]);
    }
    // Not before: they would wake up to wait for the mutex.
    notify(ranks);
  }
  void yield() override { std::this_thread::yield(); }
  /// Waits here: the other ranks have threads of their own.
  void block_on(const std::function<void()>& wait) override { wait(); }
  std::int64_t current() const override {
    const RankContext* running = current_rank_or_null();
    return running != nullptr && running->scheduler == this ? running->rank : -1;
  }
  std::int64_t thread_of(std::int64_t rank) const override { return rank; }

 private:
  struct Seat {
    std::condition_variable woken;
    bool parked = false;
    bool permit = false;
  };
  enum class Gate : std::uint8_t { kClosed, kOpen, kCancelled };

  void serve(std::int64_t rank, std::int64_t ranks, const std::function<void(std::int64_t)>& body) {
    {
      std::unique_lock lock(mutex_);
      gate_opened_.wait(lock, [this] { return gate_ != Gate::kClosed; });
      if (gate_ == Gate::kCancelled) return;
    }
    RankContext identity;
    identity.rank = rank;
    identity.world_size = ranks;
    identity.scheduler = this;
    set_current_rank(&identity);
    body(rank);
    set_current_rank(nullptr);
    std::unique_lock lock(mutex_);
    --live_;
    resolve_stalls(lock);
  }
  void open(Gate gate) {
    const std::lock_guard lock(mutex_);
    gate_ = gate;
    gate_opened_.notify_all();
  }
  /// Runs the stall handler as long as all live ranks are parked. Called with the mutex held;
  /// releases it while the handler runs.
  void resolve_stalls(std::unique_lock<std::mutex>& lock) {
    // While the handler wakes ranks one by one, woken ones may end or park again before it has
    // reached the others: that is not yet another stall; it is checked afterwards.
    if (resolving_) return;
    resolving_ = true;
    while (live_ > 0 && parked_ == live_) {
      const std::uint64_t wakes = wakes_;
      if (stall_handler_) {
        // It runs on no rank.
        lock.unlock();
        RankContext* context = set_current_rank(nullptr);
        stall_handler_();
        set_current_rank(context);
        lock.lock();
      }
      if (wakes_ != wakes) continue;
      broken_ = true;
      for (std::int64_t rank = 0; rank < thread_count_; ++rank) {
        wake(seats_[static_cast<std::size_t>(rank)]);
        notify({&rank, 1});
      }
    }
    resolving_ = false;
  }
  /// Their threads continue when they are notified. With the mutex held.
  void wake(Seat& seat) {
    seat.permit = true;
    if (!seat.parked) return;
    seat.parked = false;
    --parked_;
    ++wakes_;
  }
  void notify(std::span<const std::int64_t> ranks) {
    for (const std::int64_t rank : ranks) seats_[static_cast<std::size_t>(rank)].woken.notify_one();
  }

  std::mutex mutex_;  // guards all below
  std::condition_variable gate_opened_;
  Gate gate_ = Gate::kClosed;
  std::unique_ptr<Seat[]> seats_;
  std::int64_t live_ = 0;
  std::int64_t parked_ = 0;
  std::uint64_t wakes_ = 0;
  bool resolving_ = false;
  bool broken_ = false;  // a stall that was not resolved
};

}  // namespace

std::string_view to_string(SchedulerKind kind) {
  constexpr std::string_view kNames[] = {"pool", "threads", "seeded"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::optional<SchedulerKind> parse_scheduler(std::string_view name) {
  for (const SchedulerKind kind : kSchedulerKinds) {
    if (name == to_string(kind)) return kind;
  }
  return std::nullopt;
}

std::unique_ptr<Scheduler> make_scheduler(const SchedulerOptions& options) {
  if (options.kind == SchedulerKind::kThreads) return std::make_unique<ThreadScheduler>();
  if (options.kind == SchedulerKind::kSeeded) {
    return std::make_unique<PoolScheduler>(options.stack_bytes, 1, options.seed);
  }
  return std::make_unique<PoolScheduler>(options.stack_bytes,
                                         std::max<std::int64_t>(1, options.workers));
}

std::uint64_t drawn_steps(const Scheduler& scheduler) {
  const auto* pool = dynamic_cast<const PoolScheduler*>(&scheduler);
  return pool == nullptr ? 0 : pool->steps();
}

}  // namespace shardlab
