// All communicators are non-blocking, and every wait polls three things: the communicator's state,
// the device and the failure of another rank. A failure aborts every communicator at once, because
// NCCL's own calls would wait for ever; afterwards nothing writes to memory of the program.
#include "backends/nccl/session.h"

#include <algorithm>
#include <utility>

#include "backends/nccl/library.h"
#include "backends/nccl/patience.h"

namespace shardlab::nccl {

namespace {

// How long the culprit's own report may take to get here after NCCL has noticed something.
constexpr std::chrono::milliseconds kReportTakes{1'500};

}  // namespace

Session::Session(const Api& api, LocalSide& side, const Peers& peers, std::int64_t rank, int device)
    : api_(api), side_(side), peers_(peers), rank_(rank) {
  int devices = 0;
  check(api_, api_.GetDeviceCount(&devices), "cudaGetDeviceCount", rank_);
  if (device >= devices) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("rank {} wants device {} of {} on its host", rank_, device, devices))
        .with("fix", "start at most one rank for each device");
  }
  check(api_, api_.SetDevice(device), "cudaSetDevice", rank_);
  check(api_, api_.StreamCreateWithFlags(&stream_, kStreamNonBlocking), "cudaStreamCreate", rank_);
}

Session::~Session() {
  for (const Comm comm : std::vector<Comm>(alive_)) end(comm);
  api_.StreamSynchronize(stream_);
  for (const Event event : idle_) api_.EventDestroy(event);
  api_.StreamDestroy(stream_);
}

void Session::check_peers() {
  if (const std::optional<Error> failure = peers_.failure()) {
    abort();
    throw Error(*failure);
  }
}

// If another rank is the cause, that is soon known, and says more.
void Session::fail_call(Comm comm, Result result, const std::string& what) {
  std::string detail;
  {
    const std::lock_guard lock(mutex_);
    const char* last = aborted_ ? nullptr : api_.GetLastError(comm);
    if (last != nullptr && *last != 0) detail = fmt::format(" ({})", last);
  }
  Patience patience;
  while (!peers_.failure() && !patience.longer_than(kReportTakes)) patience.pause();
  check_peers();
  abort();
  fail(ErrorKind::kRuntime, "{}: {}{}", what, api_.GetErrorString(result), detail);
}

Result Session::state_of(Comm comm) {
  const std::lock_guard lock(mutex_);
  if (aborted_) return Result::kRemoteError;
  Result state = Result::kSuccess;
  const Result asked = api_.CommGetAsyncError(comm, &state);
  return asked == Result::kSuccess ? state : asked;
}

void Session::poll(Comm comm, const std::string& call) {
  Patience patience;
  while (true) {
    const Result state = state_of(comm);
    if (state == Result::kSuccess) return;
    if (state != Result::kInProgress) fail_call(comm, state, call);
    check_peers();
    patience.pause();
  }
}

Comm Session::join(const UniqueId& id, std::int64_t size, std::int64_t rank) {
  check_peers();
  Config config;
  config.blocking = 0;
  Comm comm = nullptr;
  {
    const std::lock_guard lock(mutex_);
    check(
        api_,
        api_.CommInitRankConfig(&comm, static_cast<int>(size), id, static_cast<int>(rank), &config),
        "ncclCommInitRankConfig", rank_, nullptr);
    alive_.push_back(comm);
  }
  poll(comm, "ncclCommInitRankConfig");
  return comm;
}

Comm Session::split(Comm parent, int color, int key) {
  await_posted(parent, "collectives before a split");
  api_.StreamSynchronize(stream_);
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

bool Session::finalize(Comm comm) noexcept {
  try {
    await_posted(comm, "the last collectives");
    if (side_.waits() == LocalSide::Waits::kStream) api_.StreamSynchronize(stream_);
    {
      const std::lock_guard lock(mutex_);
      check(api_, api_.CommFinalize(comm), "ncclCommFinalize", rank_, comm);
    }
    poll(comm, "ncclCommFinalize");
    return true;
  } catch (const Error&) {
    return false;
  }
}

void Session::end(Comm comm) noexcept {
  if (comm == nullptr) return;
  if (peers_.failure()) abort();
  {
    const std::lock_guard lock(mutex_);
    const auto place = std::ranges::find(alive_, comm);
    if (place == alive_.end()) return;
  }
  const bool clean = finalize(comm);
  const std::lock_guard lock(mutex_);
  if (aborted_) return;
  std::erase(alive_, comm);
  if (!clean || api_.CommDestroy(comm) != Result::kSuccess) api_.CommAbort(comm);
}

void Session::post(Comm comm, const std::function<void()>& calls, const std::string& what) {
  check_peers();
  side_.order_before(api_, stream_);
  {
    const std::lock_guard lock(mutex_);
    if (!aborted_) {
      check(api_, api_.GroupStart(), "ncclGroupStart", rank_, comm);
      calls();
      check(api_, api_.GroupEnd(), "ncclGroupEnd", rank_, comm);
    }
  }
  poll(comm, what);
}

Event Session::mark() {
  Event event = nullptr;
  if (idle_.empty()) {
    check(api_, api_.EventCreateWithFlags(&event, kEventDisableTiming), "cudaEventCreate", rank_);
  } else {
    event = idle_.back();
    idle_.pop_back();
  }
  const CudaError recorded = api_.EventRecord(event, stream_);
  if (recorded != CudaError::kSuccess) release(event);
  check(api_, recorded, "cudaEventRecord", rank_);
  return event;
}

void Session::release(Event event) { idle_.push_back(event); }

void Session::await_posted(Comm comm, const std::string& what) {
  struct Mark {
    Session& session;
    const Event event;
    ~Mark() { session.release(event); }
  };
  const Mark all{*this, mark()};
  await(comm, all.event, what);
}

bool Session::reached(Event event) const { return api_.EventQuery(event) == CudaError::kSuccess; }

void Session::await(Comm comm, Event event, const std::string& what) {
  if (side_.waits() == LocalSide::Waits::kStream) {
    check_peers();
    side_.order_after(api_, event);
    return;
  }
  Patience patience;
  while (true) {
    const CudaError state = api_.EventQuery(event);
    if (state != CudaError::kNotReady) check(api_, state, "cudaEventQuery", rank_);
    const Result result = state_of(comm);
    if (result != Result::kSuccess && result != Result::kInProgress) {
      fail_call(comm, result, what);
    }
    if (state == CudaError::kSuccess) return;
    check_peers();
    patience.pause();
  }
}

void Session::settle(Event event) noexcept {
  Patience patience;
  if (side_.waits() == LocalSide::Waits::kStream) {
    try {
      side_.order_after(api_, event);
    } catch (const Error&) {
      abort();
      api_.StreamSynchronize(stream_);
    }
    return;
  }
  while (api_.EventQuery(event) == CudaError::kNotReady) {
    if (peers_.failure()) abort();
    patience.pause();
  }
}

void Session::cut() noexcept {
  const std::lock_guard lock(mutex_);
  if (aborted_) return;
  aborted_ = true;
  for (const Comm comm : std::exchange(alive_, {})) api_.CommAbort(comm);
}

void Session::abort() noexcept {
  cut();
  // Nothing writes to anybody's memory after this.
  api_.StreamSynchronize(stream_);
}

}  // namespace shardlab::nccl
