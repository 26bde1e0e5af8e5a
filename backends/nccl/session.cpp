// All communicators are blocking, since NCCL makes a thread for each group of non-blocking ones,
// which costs more than a small collective does. A blocking call must not wait, though: NCCL may be
// aborted only where no thread is inside of it, and an abort is all that frees a rank whose others
// have failed.
//
// A call waits for other ranks where it reaches them for the first time, since connections are made
// as they are needed; so do start, split and end. All of these are visits: a thread of their own
// makes them, and the rank waits for that thread as it waits for everything, checking the state of
// the other communicators, the failure of another rank and a stated patience. A group of calls is a
// visit unless its communicator has completed calls of the same signatures before, whose
// connections it takes; then the rank makes it itself. This does not wait for the device either:
// only few of the calls before it may be in flight, and a group of more calls than that is always a
// visit. One thread makes all visits of a session.
//
// If the environment makes launches wait (CUDA_LAUNCH_BLOCKING), the rank may be inside of NCCL for
// ever all the same. The watching thread then reports and cuts, and if the rank does not come
// back, ends the process with the message. If the environment makes communicators that do not block
// (NCCL_COMM_BLOCKING=0), calls in progress are polled, by the rank with all its checks.
//
// A failure is reported first, because NCCL's abort waits for the other ranks of the node. Then the
// rank waits for its visit, if one is under way: it returns as soon as another rank has closed its
// connections, by an abort or with its process. Then all communicators are aborted at once, because
// each alone would wait for the others' work on the stream; afterwards nothing writes to memory of
// the program, and nothing is ever destroyed, only aborted.
//
// A launch on the device waits as soon as CUDA has taken as much as it takes, about 1,024 of them,
// and then the rank checks nothing. A watching thread does so in its place: where calls are in
// flight and the rank has not checked for a while, failures, states and the patience are checked
// there, and the abort lets the launch return.
//
// If the visit does not return soon, all communicators but its own are aborted without it, which
// frees ranks that wait for each other crosswise. A call that has not returned then is left behind,
// a visit with its communicator or an abort, and with it all memory that calls in flight may write
// to. Only the end of the process closes what was left, so it runs no second session, and the other
// ranks of its node leave their aborts behind after a few seconds.
#include "backends/nccl/session.h"

#include <algorithm>
#include <utility>

#include "backends/nccl/library.h"
#include "backends/process/last_resort.h"
#include "comm/verdict.h"

namespace shardlab::nccl {

namespace {

using backends::Patience;

// The longest time until the culprit's own report arrives after NCCL has noticed an error.
constexpr std::chrono::milliseconds kReportTakes{1'500};
// The longest time until a visit returns after the others have received a failure, with a patience
// that is not far shorter; and the longest time for the aborts of the others, who wait for theirs.
constexpr std::chrono::milliseconds kVisitTakes{1'000};
constexpr int kAbortTakesVisits = 2;
// The longest time for the device to come to an end once its communicators have.
constexpr std::chrono::milliseconds kDeviceTakes{10'000};
// The period of the watching thread's checks.
constexpr std::chrono::milliseconds kLooks{100};

// A program whose calls never repeat is remembered up to this number, then from the beginning.
constexpr std::size_t kMostSignatures = 4096;
// Number of calls that share one event, which is reached when they are over.
constexpr std::uint64_t kCallsAMilestone = kMostInFlight / 4;

constexpr const char* kJoin = "ncclCommInitRankConfig";
constexpr const char* kSplit = "ncclCommSplit";
constexpr const char* kOneRankADevice =
    "start at most one rank for each device, or say which with SHARDLAB_DEVICE_ORDINAL";

}  // namespace

Session::Session(const Api& api, LocalSide& side, const Peers& peers, std::int64_t rank, int device,
                 std::chrono::milliseconds patience)
    : side_(side), peers_(peers), patience_(patience) {
  if (something_is_left()) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("rank {} is still inside of NCCL, since an earlier run failed", rank))
        .with("fix", "end the process, which frees the other ranks, and start the job again");
  }
  int devices = 0;
  check(api, api.GetDeviceCount(&devices), "cudaGetDeviceCount", rank);
  if (device >= devices) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("rank {} wants device {} of {} on its host", rank, device, devices))
        .with("fix", kOneRankADevice);
  }
  Lane lane{.api = api, .device = device, .version = 0, .stream = nullptr, .rank = rank};
  check(api, api.GetVersion(&lane.version), "ncclGetVersion", rank, nullptr);
  check(api, api.SetDevice(device), "cudaSetDevice", rank);
  check(api, api.StreamCreateWithFlags(&lane.stream, kStreamNonBlocking), "cudaStreamCreate", rank);
  lane_ = std::make_shared<const Lane>(lane);
  watcher_ = std::thread([this] { keep_watch(); });
}

Session::~Session() {
  end();
  std::thread hearing;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    hearing = std::move(hearing_);
  }
  ending_.notify_all();
  watcher_.join();
  if (hearing.joinable()) hearing.join();
  if (left_) return;  // the stream and its events stay
  const Api& api = lane_->api;
  synchronize();
  for (const Kept& kept : kept_) api.EventDestroy(kept.event);
  for (const Milestone& milestone : milestones_) api.EventDestroy(milestone.event);
  for (const Event event : free_) api.EventDestroy(event);
  api.StreamDestroy(lane_->stream);
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

// If another rank is the cause, its report arrives soon, and has more facts.
void Session::hear_others() {
  Patience patience;
  const std::chrono::milliseconds most =
      std::min(kReportTakes, std::max(patience_ / 4, 2 * backends::kLastMessages));
  while (!peers_.failure() && patience.waited() < most) patience.pause();
  check_peers();
}

void Session::fail_call(Comm comm, Result result, const std::string& what) {
  std::string detail;
  {
    const std::lock_guard lock(mutex_);
    const char* last = aborted_ || comm == nullptr ? nullptr : lane_->api.GetLastError(comm);
    if (last != nullptr && *last != 0) detail = fmt::format(" ({})", last);
  }
  hear_others();
  Error reason(ErrorKind::kRuntime,
               fmt::format("{}: {}{}", what, lane_->api.GetErrorString(result), detail));
  // Two ranks on one device are the usual reason, which NCCL reports on its own output only.
  if (what == kJoin) reason.with("fix", kOneRankADevice);
  give_up(reason);
}

void Session::check_outcome(Comm comm, const Outcome& outcome, const std::string& what) {
  if (outcome.error) {
    hear_others();
    give_up(*outcome.error);
  }
  if (outcome.result != Result::kSuccess) fail_call(comm, outcome.result, what);
}

Result Session::state_of(Comm comm) {
  const std::lock_guard lock(mutex_);
  if (aborted_) return Result::kRemoteError;
  // Whoever uses it will report it.
  if (is_used(comm)) return Result::kSuccess;
  Result state = Result::kSuccess;
  const Result asked = lane_->api.CommGetAsyncError(comm, &state);
  if (state == Result::kInProgress) state = Result::kSuccess;
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
    if (state != Result::kSuccess) fail_call(comm, state, what);
  }
}

void Session::check_wait(std::chrono::milliseconds waited, const std::string& what) {
  ++asked_;
  {
    const std::lock_guard lock(asking_);
    peers_.wait_on(waited, patience_);
  }
  check_peers();
  check_states(what);
  if (waited < patience_) return;
  const std::chrono::duration<double> seconds = patience_;
  give_up(Error(ErrorKind::kRuntime, fmt::format("rank {} has waited {:.3g} s for {}", lane_->rank,
                                                 seconds.count(), what))
              .with("fix", kWaitedTooLong));
}

void Session::keep_watch() {
  lane_->api.SetDevice(lane_->device);
  Patience away;
  std::uint64_t asked = 0;
  std::optional<Patience> cut;  // while the rank is inside of a call
  while (true) {
    bool inside = false, aborted = false;
    {
      std::unique_lock lock(mutex_);
      if (ending_.wait_for(lock, kLooks, [this] { return ended_; })) return;
      inside = inside_ != nullptr;
      aborted = aborted_;
    }
    if (aborted) {
      if (!inside) cut.reset();
      if (inside && !cut) cut.emplace();
      if (cut && cut->waited() > (1 + kAbortTakesVisits) * visit_takes()) {
        peers_.end_process(fmt::format("rank {} is inside of a launch", lane_->rank));
      }
      continue;
    }
    const CudaError device = lane_->api.StreamQuery(lane_->stream);
    const std::uint64_t now = asked_;
    if (std::exchange(asked, now) != now || (device == CudaError::kSuccess && !inside)) {
      away = Patience();
    } else {
      ask_for_rank(away.waited(), device);
    }
  }
}

// Reports and cuts; the rank itself finds the error that it throws.
void Session::ask_for_rank(std::chrono::milliseconds waited, CudaError device) {
  {
    const std::lock_guard lock(asking_);
    peers_.wait_on(waited, patience_);
  }
  if (peers_.failure()) return cut();
  std::vector<Comm> comms;
  {
    const std::lock_guard lock(mutex_);
    comms = alive_;
  }
  const bool failed =
      std::ranges::any_of(comms, [&](Comm comm) { return state_of(comm) != Result::kSuccess; });
  // CUDA's own errors stay, and end all work of the process on the device.
  const bool broken = device != CudaError::kSuccess && device != CudaError::kNotReady;
  if (!failed && !broken && waited < patience_) return;
  const std::string why = broken   ? lane_->api.CudaGetErrorString(device)
                          : failed ? "NCCL reports that one has failed"
                                   : "they have not come to an end";
  const std::chrono::duration<double> seconds = waited;
  peers_.tell(Error(ErrorKind::kRuntime,
                    fmt::format("rank {} has launched work behind collectives for {:.3g} s, and {}",
                                lane_->rank, seconds.count(), why))
                  .with("fix", kWaitedTooLong));
  cut();
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

Outcome Session::visit(Comm comm, std::function<Outcome()> call, std::function<void()> back,
                       const std::string& what) {
  const auto outcome = std::make_shared<Outcome>();
  const auto body = [lane = lane_, call = std::move(call), outcome] {
    lane->api.SetDevice(lane->device);
    *outcome = call();
  };
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) return {Result::kRemoteError, std::nullopt};
    visit_ = {comm, std::move(back)};
  }
  visits_->begin(body);
  Patience patience;
  while (!visits_->over()) {
    check_wait(patience.waited(), what);
    patience.pause();
  }
  come_back();
  // A failure may have arrived while the visit kept all from being aborted.
  const std::lock_guard lock(mutex_);
  return aborted_ ? Outcome{Result::kRemoteError, std::nullopt} : *outcome;
}

void Session::come_back() {
  const std::lock_guard lock(mutex_);
  if (visit_->back) visit_->back();
  visit_.reset();
}

void Session::leave_behind() {
  left_ = true;
  visits_->leave();
  const std::lock_guard lock(mutex_);
  std::erase(alive_, visit_->comm);
  visit_.reset();
}

std::function<void()> Session::joins(std::shared_ptr<Comm> made) {
  return [this, made = std::move(made)] {
    if (*made != nullptr) alive_.push_back(*made);
  };
}

Comm Session::join(const UniqueId& id, std::int64_t size, std::int64_t rank) {
  check_peers();
  const auto made = std::make_shared<Comm>(nullptr);
  const auto call = [lane = lane_, made, id, size, rank] {
    Config config;
    config.blocking = 1;
    const Result begun = lane->api.CommInitRankConfig(made.get(), static_cast<int>(size), id,
                                                      static_cast<int>(rank), &config);
    return Outcome{settled(*lane, *made, begun), std::nullopt};
  };
  const Outcome outcome = visit(nullptr, call, joins(made), kJoin);
  check_outcome(*made, outcome, kJoin);
  return *made;
}

Comm Session::split(Comm parent, int color, int key) {
  drain("collectives before a split");
  const auto made = std::make_shared<Comm>(nullptr);
  const auto call = [lane = lane_, made, parent, color, key] {
    const Result begun = lane->api.CommSplit(parent, color, key, made.get(), nullptr);
    const Result split = settled(*lane, parent, begun);
    if (begun != Result::kInProgress || split != Result::kSuccess) return Outcome{split, {}};
    return Outcome{settled(*lane, *made, Result::kInProgress), std::nullopt};
  };
  const Outcome outcome = visit(parent, call, joins(made), kSplit);
  check_outcome(parent, outcome, kSplit);
  return *made;
}

void Session::post(Comm comm, std::span<const GroupCall> calls, std::shared_ptr<void> memory,
                   const std::string& what) {
  await_room(what);
  check_wait(std::chrono::milliseconds(0), what);
  drop_reached();
  side_.order_before(lane_->api, lane_->stream);
  std::set<Signature>& completed = completed_[comm];
  const std::vector<Signature> signatures = signatures_of(calls);
  const auto known = [&](const Signature& signature) { return completed.contains(signature); };
  if (calls.size() <= kMostInFlight && std::ranges::all_of(signatures, known)) {
    check_outcome(comm, call_directly(comm, calls, what), what);
  } else {
    const auto call = [lane = lane_, comm, own = std::vector(calls.begin(), calls.end()),
                       memory = std::move(memory)] {
      Outcome outcome = make_group(*lane, comm, own);
      outcome.result = settled(*lane, comm, outcome.result);
      return outcome;
    };
    check_outcome(comm, visit(comm, call, nullptr, what), what);
    if (completed.size() >= kMostSignatures) completed.clear();
    completed.insert(signatures.begin(), signatures.end());
  }
  count_posted(calls.size());
}

Outcome Session::call_directly(Comm comm, std::span<const GroupCall> calls,
                               const std::string& what) {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) return {Result::kRemoteError, std::nullopt};
    inside_ = comm;
  }
  Outcome outcome = make_group(*lane_, comm, calls);
  {
    const std::lock_guard lock(mutex_);
    inside_ = nullptr;
    if (aborted_) return {Result::kRemoteError, std::nullopt};
  }
  if (outcome.result != Result::kInProgress) return outcome;
  const auto over = [&] {
    const std::lock_guard lock(mutex_);
    return aborted_ || lane_->api.CommGetAsyncError(comm, &outcome.result) != Result::kSuccess ||
           outcome.result != Result::kInProgress;
  };
  poll_until(over, what);
  return outcome;
}

// Calls in flight may keep a launch from returning.
void Session::await_room(const std::string& what) {
  if (posted_ - over_ <= kMostInFlight) return;
  const auto room = [&] {
    while (!milestones_.empty() && reached(milestones_.front().event)) {
      over_ = milestones_.front().posted;
      release(milestones_.front().event);
      milestones_.pop_front();
    }
    return posted_ - over_ <= kMostInFlight;
  };
  poll_until(room, what);
}

void Session::count_posted(std::size_t calls) {
  posted_ += calls;
  const std::uint64_t before = milestones_.empty() ? over_ : milestones_.back().posted;
  if (posted_ - before < kCallsAMilestone) return;
  const Event event = take_event();
  record(event);
  milestones_.push_back({posted_, event});
}

Event Session::take_event() {
  if (!free_.empty()) {
    const Event event = free_.back();
    free_.pop_back();
    return event;
  }
  Event event = nullptr;
  check(lane_->api, lane_->api.EventCreateWithFlags(&event, kEventDisableTiming), "cudaEventCreate",
        lane_->rank);
  return event;
}

void Session::record(Event event) {
  const CudaError recorded = lane_->api.EventRecord(event, lane_->stream);
  if (recorded != CudaError::kSuccess) release(event);
  check(lane_->api, recorded, "cudaEventRecord", lane_->rank);
}

Event Session::mark() {
  const Event event = take_event();
  record(event);
  last_ = event;
  return event;
}

void Session::release(Event event) { free_.push_back(event); }

bool Session::reached(Event event) const {
  const CudaError state = lane_->api.EventQuery(event);
  if (state == CudaError::kNotReady) {
    // The runtime keeps it as the last error, which the next launch of a kernel would be taken for.
    lane_->api.CudaGetLastError();
    return false;
  }
  check(lane_->api, state, "cudaEventQuery", lane_->rank);
  return true;
}

void Session::await(Event event, const std::string& what) {
  if (side_.waits() == LocalSide::Waits::kStream) {
    check_peers();
    return side_.order_after(lane_->api, event);
  }
  poll_until([&] { return reached(event); }, what);
}

void Session::let_go(Event event, std::shared_ptr<void> memory) noexcept {
  if (left_) return keep_for_ever(std::move(memory));
  if (side_.waits() == LocalSide::Waits::kHost) return kept_.push_back({event, std::move(memory)});
  try {
    side_.order_after(lane_->api, event);
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

// Waits for the other ranks of the node.
void Session::end_one(Comm comm) {
  drain("the last collectives");
  const auto finalized = std::make_shared<Result>(Result::kInternalError);
  const auto call = [lane = lane_, comm, finalized] {
    *finalized = settled(*lane, comm, lane->api.CommFinalize(comm));
    if (*finalized == Result::kSuccess) lane->api.CommDestroy(comm);
    return Outcome{*finalized, std::nullopt};
  };
  const auto back = [this, comm, finalized] {
    if (*finalized == Result::kSuccess) std::erase(alive_, comm);
  };
  const Outcome outcome = visit(comm, call, back, "the end of a communicator");
  check(lane_->api, outcome.result, "ncclCommFinalize", lane_->rank, comm);
}

void Session::end() noexcept {
  std::vector<Comm> comms;
  {
    const std::lock_guard lock(mutex_);
    comms = alive_;
  }
  std::ranges::reverse(comms);
  try {
    for (const Comm comm : comms) end_one(comm);
  } catch (const Error& reason) {
    if (!peers_.failure()) peers_.tell(reason);
  }
  bool left = false;
  {
    const std::lock_guard lock(mutex_);
    left = !alive_.empty() || !aborts_.empty();
  }
  if (left) abort();
}

// On a thread of its own: the reporting thread must not wait for the others. A communicator that a
// thread uses is left out.
void Session::abort_alive() {
  std::vector<Comm> comms;
  for (const Comm comm : std::exchange(alive_, {})) {
    (is_used(comm) ? alive_ : comms).push_back(comm);
  }
  if (comms.empty()) return;
  aborts_.push_back(std::make_unique<Errand>());
  aborts_.back()->begin([lane = lane_, comms = std::move(comms)] { abort_together(*lane, comms); });
}

// While a visit is under way the rank waits for it, receives the failure there, and aborts.
void Session::cut() noexcept {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  if (!visit_) abort_alive();
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

void Session::abort_rest() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  abort_alive();
}

std::chrono::milliseconds Session::visit_takes() const {
  return std::min(kVisitTakes, 4 * patience_);
}

void Session::synchronize() {
  const process::LastResort limit(kDeviceTakes, [this] {
    peers_.end_process(fmt::format("the device of rank {} does not come to an end", lane_->rank));
    return std::string();
  });
  lane_->api.StreamSynchronize(lane_->stream);
}

void Session::abort() noexcept {
  const std::chrono::milliseconds abort_takes = kAbortTakesVisits * visit_takes();
  *lane_->cut = true;
  if (visit_ && visits_->wait(visit_takes())) come_back();
  abort_rest();
  if (visit_) visits_->wait(abort_takes) ? come_back() : leave_behind();
  abort_rest();
  std::vector<std::unique_ptr<Errand>> aborts;
  {
    const std::lock_guard lock(mutex_);
    aborts = std::move(aborts_);
  }
  const Patience patience;
  for (const std::unique_ptr<Errand>& abort : aborts) {
    if (abort->wait(abort_takes - patience.waited())) continue;
    left_ = true;
    abort->leave();
  }
  if (!left_) {
    // Nothing writes to memory of others after this.
    synchronize();
    for (const Kept& kept : std::exchange(kept_, {})) release(kept.event);
    return;
  }
  for (Kept& kept : std::exchange(kept_, {})) keep_for_ever(std::move(kept.memory));
}

}  // namespace shardlab::nccl
