// All communicators are non-blocking, and every wait polls four things: the state of every
// communicator, the device, the failure of another rank and a stated patience. A failure is told
// first, because NCCL's abort waits for the other ranks of the node, and aborts every communicator
// at once, because each alone would wait for the others' work on the stream; afterwards nothing
// writes to memory of the program. After a failure nothing is ever destroyed, only aborted.
// NCCL makes a thread for each group of non-blocking calls, and its abort waits for that thread.
// The abort of a blocking communicator waits for no call: it frees what another thread may be in
// the middle of, where a group reaches a peer for the first time, and nothing else ends that wait.
#include "backends/nccl/session.h"

#include <algorithm>
#include <utility>

#include "backends/nccl/library.h"

namespace shardlab::nccl {

namespace {

using backends::Patience;

// How long the culprit's own report may take to get here after NCCL has noticed something.
constexpr std::chrono::milliseconds kReportTakes{1'500};

constexpr const char* kJoin = "ncclCommInitRankConfig";
constexpr const char* kOneRankADevice =
    "start at most one rank for each device, or say which with SHARDLAB_DEVICE_ORDINAL";

// Since then aborts belong to the group that they are made in, and go on at once.
constexpr int kAbortsAreGrouped = 22403;

// NCCL's group of this thread. One that is left open would only queue all calls that come later,
// aborts among them.
class Group {
 public:
  explicit Group(const Api& api) : api_(api), open_(api.GroupStart() == Result::kSuccess) {}
  ~Group() {
    if (open_) api_.GroupEnd();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  Result end() {
    if (!std::exchange(open_, false)) return Result::kInternalError;
    return api_.GroupEnd();
  }

 private:
  const Api& api_;
  bool open_;
};

}  // namespace

Session::Session(const Api& api, LocalSide& side, const Peers& peers, std::int64_t rank, int device,
                 std::chrono::milliseconds patience)
    : api_(api), side_(side), peers_(peers), rank_(rank), device_(device), patience_(patience) {
  int devices = 0;
  check(api_, api_.GetDeviceCount(&devices), "cudaGetDeviceCount", rank_);
  if (device >= devices) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("rank {} wants device {} of {} on its host", rank_, device, devices))
        .with("fix", kOneRankADevice);
  }
  check(api_, api_.GetVersion(&version_), "ncclGetVersion", rank_, nullptr);
  check(api_, api_.SetDevice(device), "cudaSetDevice", rank_);
  check(api_, api_.StreamCreateWithFlags(&stream_, kStreamNonBlocking), "cudaStreamCreate", rank_);
}

Session::~Session() {
  end();
  std::thread hearing;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    hearing = std::move(hearing_);
  }
  if (hearing.joinable()) hearing.join();
  api_.StreamSynchronize(stream_);
  for (const Kept& kept : kept_) api_.EventDestroy(kept.event);
  for (const Event event : free_) api_.EventDestroy(event);
  api_.StreamDestroy(stream_);
}

void Session::check_peers() {
  if (const std::optional<Error> failure = peers_.failure()) {
    abort();
    throw Error(*failure);
  }
}

void Session::give_up(const Error& reason) {
  peers_.tell(reason);
  abort();
  throw Error(reason);
}

// If another rank is the cause, that is soon known, and says more.
void Session::hear_others() {
  Patience patience;
  const std::chrono::milliseconds most = std::min(kReportTakes, patience_ / 4);
  while (!peers_.failure() && patience.waited() < most) patience.pause();
  check_peers();
}

void Session::fail_call(Comm comm, Result result, const std::string& what) {
  std::string detail;
  {
    const std::lock_guard lock(mutex_);
    const char* last = aborted_ || comm == nullptr ? nullptr : api_.GetLastError(comm);
    if (last != nullptr && *last != 0) detail = fmt::format(" ({})", last);
  }
  hear_others();
  Error reason(ErrorKind::kRuntime,
               fmt::format("{}: {}{}", what, api_.GetErrorString(result), detail));
  // Two ranks on one device are the usual reason, which NCCL says on its own output only.
  if (what == kJoin) reason.with("fix", kOneRankADevice);
  give_up(reason);
}

Result Session::state_of(Comm comm) {
  const std::lock_guard lock(mutex_);
  if (aborted_) return Result::kRemoteError;
  Result state = Result::kSuccess;
  const Result asked = api_.CommGetAsyncError(comm, &state);
  return asked == Result::kSuccess ? state : asked;
}

void Session::check_states(const std::string& what) {
  std::vector<Comm> comms;
  bool aborted = false;
  {
    const std::lock_guard lock(mutex_);
    comms = alive_;
    aborted = aborted_;
  }
  if (aborted) fail_call(nullptr, Result::kRemoteError, what);
  for (const Comm comm : comms) {
    const Result state = state_of(comm);
    if (state != Result::kSuccess && state != Result::kInProgress) fail_call(comm, state, what);
  }
}

void Session::check_wait(std::chrono::milliseconds waited, const std::string& what) {
  check_peers();
  check_states(what);
  if (waited < patience_) return;
  const std::chrono::duration<double> seconds = patience_;
  give_up(Error(ErrorKind::kRuntime,
                fmt::format("rank {} has waited {:.3g} s for {}", rank_, seconds.count(), what))
              .with("fix", backends::kWaitedTooLong));
}

void Session::poll_until(const std::function<bool()>& over, const std::string& what) {
  Patience patience;
  while (true) {
    const bool now = over();
    // Also when it is over: it may have been cut short.
    check_wait(now ? std::chrono::milliseconds(0) : patience.waited(), what);
    if (now) return;
    patience.pause();
  }
}

void Session::poll(Comm comm, const std::string& call) {
  poll_until([&] { return state_of(comm) == Result::kSuccess; }, call);
}

Comm Session::join(const UniqueId& id, std::int64_t size, std::int64_t rank) {
  check_peers();
  Config config;
  config.blocking = 0;
  Comm comm = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!aborted_) {
      check(api_,
            api_.CommInitRankConfig(&comm, static_cast<int>(size), id, static_cast<int>(rank),
                                    &config),
            kJoin, rank_, nullptr);
      alive_.push_back(comm);
    }
  }
  poll(comm, kJoin);
  return comm;
}

Comm Session::split(Comm parent, int color, int key) {
  drain("collectives before a split");
  Comm made = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!aborted_) {
      check(api_, api_.CommSplit(parent, color, key, &made, nullptr), "ncclCommSplit", rank_,
            parent);
    }
  }
  poll(parent, "ncclCommSplit");
  if (color == kNoColor) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    alive_.push_back(made);
  }
  poll(made, "ncclCommSplit");
  return made;
}

void Session::post(Comm comm, const std::function<void()>& calls, const std::string& what) {
  check_peers();
  drop_reached();
  side_.order_before(api_, stream_);
  try {
    const std::lock_guard lock(mutex_);
    if (!aborted_) {
      Group group(api_);
      calls();
      check(api_, group.end(), "ncclGroupEnd", rank_, comm);
    }
  } catch (const Error& reason) {
    hear_others();
    give_up(reason);
  }
  poll(comm, what);
}

Event Session::mark() {
  Event event = nullptr;
  if (free_.empty()) {
    check(api_, api_.EventCreateWithFlags(&event, kEventDisableTiming), "cudaEventCreate", rank_);
  } else {
    event = free_.back();
    free_.pop_back();
  }
  const CudaError recorded = api_.EventRecord(event, stream_);
  if (recorded != CudaError::kSuccess) release(event);
  check(api_, recorded, "cudaEventRecord", rank_);
  last_ = event;
  return event;
}

void Session::release(Event event) { free_.push_back(event); }

bool Session::reached(Event event) const {
  const CudaError state = api_.EventQuery(event);
  if (state == CudaError::kNotReady) {
    // The runtime keeps it as the last error, which the next launch of a kernel would be taken for.
    api_.CudaGetLastError();
    return false;
  }
  check(api_, state, "cudaEventQuery", rank_);
  return true;
}

void Session::await(Event event, const std::string& what) {
  if (side_.waits() == LocalSide::Waits::kStream) {
    check_peers();
    return side_.order_after(api_, event);
  }
  poll_until([&] { return reached(event); }, what);
}

void Session::let_go(Event event, std::shared_ptr<void> memory) noexcept {
  if (side_.waits() == LocalSide::Waits::kHost) return kept_.push_back({event, std::move(memory)});
  try {
    side_.order_after(api_, event);
  } catch (const Error& reason) {
    peers_.tell(reason);
    abort();
  }
  release(event);
}

void Session::drop_reached() {
  std::erase_if(kept_, [&](const Kept& kept) {
    const bool over = reached(kept.event);
    if (over) release(kept.event);
    return over;
  });
}

void Session::drain(const std::string& what) {
  struct Mark {
    Session& session;
    const Event event;
    ~Mark() { session.release(event); }
  };
  const Mark all{*this, mark()};
  poll_until([&] { return reached(all.event); }, what);
}

void Session::finalize(Comm comm) {
  drain("the last collectives");
  {
    const std::lock_guard lock(mutex_);
    if (!aborted_) check(api_, api_.CommFinalize(comm), "ncclCommFinalize", rank_, comm);
  }
  poll(comm, "ncclCommFinalize");
}

void Session::end() noexcept {
  std::vector<Comm> comms;
  {
    const std::lock_guard lock(mutex_);
    comms = alive_;
  }
  std::ranges::reverse(comms);
  try {
    for (const Comm comm : comms) {
      finalize(comm);
      {
        const std::lock_guard lock(mutex_);
        if (aborted_) break;
        std::erase(alive_, comm);
      }
      // Waits for the other ranks of the node: under no lock, so that a failure is heard meanwhile,
      // which lets it return, since the others abort then.
      api_.CommDestroy(comm);
    }
  } catch (const Error& reason) {
    if (!peers_.failure()) peers_.tell(reason);
  }
  bool left = false;
  {
    const std::lock_guard lock(mutex_);
    left = !alive_.empty() || aborting_.joinable();
  }
  if (left) abort();
}

// Each tells its calls to stop at once, and then waits for all work of the device.
void Session::abort_all(const std::vector<Comm>& comms) const {
  api_.SetDevice(device_);
  if (version_ >= kAbortsAreGrouped) {
    Group group(api_);
    for (const Comm comm : comms) api_.CommAbort(comm);
    return;
  }
  std::vector<std::thread> aborts;
  for (const Comm comm : comms) aborts.emplace_back([this, comm] { api_.CommAbort(comm); });
  for (std::thread& abort : aborts) abort.join();
}

// On a thread of its own: whoever brings the news must not wait for the others. One that was split
// off meanwhile follows the first ones.
void Session::cut() noexcept {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  if (alive_.empty()) return;
  aborting_ = std::thread(
      [this, before = std::move(aborting_), comms = std::exchange(alive_, {})]() mutable {
        if (before.joinable()) before.join();
        abort_all(comms);
      });
}

void Session::cut_on_failure() {
  const std::lock_guard lock(mutex_);
  hearing_ = std::thread([this] {
    Patience patience;
    while (!peers_.failure()) {
      {
        const std::lock_guard ending(mutex_);
        if (ended_) return;
      }
      patience.pause();
    }
    cut();
  });
}

void Session::abort() noexcept {
  cut();
  std::thread aborting;
  {
    const std::lock_guard lock(mutex_);
    aborting = std::move(aborting_);
  }
  if (aborting.joinable()) aborting.join();
  // Nothing writes to anybody's memory after this.
  api_.StreamSynchronize(stream_);
  for (const Kept& kept : std::exchange(kept_, {})) release(kept.event);
}

}  // namespace shardlab::nccl
