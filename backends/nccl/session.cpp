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
// If the environment makes communicators that do not block (NCCL_COMM_BLOCKING=0), calls in
// progress are polled, by the rank with all its checks.
//
// A failure is reported first, because NCCL's abort waits for the other ranks of the node. Then the
// rank waits for its visit, if one is under way: it returns as soon as another rank has closed its
// connections, by an abort or with its process. Then all communicators are aborted at once, because
// each alone would wait for the others' work on the stream; afterwards nothing writes to memory of
// the program, and nothing is ever destroyed, only aborted.
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
#include "base/error.h"
#include "comm/verdict.h"

namespace shardlab::nccl {

namespace {

using backends::Patience;

// The longest time until the culprit's own report arrives after NCCL has noticed an error.
constexpr std::chrono::milliseconds kReportTakes{1'500};
// The longest time for the device to come to an end once its communicators have.
constexpr std::chrono::milliseconds kDeviceTakes{10'000};
// A program whose calls never repeat is remembered up to this number, then from the beginning.
constexpr std::size_t kMostSignatures = 4096;
constexpr const char* kJoin = "ncclCommInitRankConfig";
constexpr const char* kSplit = "ncclCommSplit";

}  // namespace

int devices_of(const Api& api, std::int64_t rank) {
  int devices = 0;
  check(api, api.GetDeviceCount(&devices), "cudaGetDeviceCount", rank);
  return devices;
}

void check_device(int device, int devices, std::int64_t rank) {
  if (device < devices) return;
  fail(ErrorKind::kRuntime, Fix{kOneRankADevice}, "rank {} wants device {} of {} on its host", rank,
       device, devices);
}

Session::Session(const Api& api, LocalSide& side, const Peers& peers, std::int64_t rank, int device,
                 std::chrono::milliseconds patience)
    : side_(side), peers_(peers), patience_(patience) {
  if (something_is_left()) {
    fail(ErrorKind::kRuntime,
         Fix{"end the process, which frees the other ranks, and start the job again"},
         "rank {} is still inside of NCCL, since an earlier run failed", rank);
  }
  check_device(device, devices_of(api, rank), rank);
  Lane lane{.api = api, .device = device, .version = 0, .stream = nullptr, .rank = rank};
  check(api, api.GetVersion(&lane.version), "ncclGetVersion", rank, nullptr);
  check(api, api.SetDevice(device), "cudaSetDevice", rank);
  check(api, api.StreamCreateWithFlags(&lane.stream, kStreamNonBlocking), "cudaStreamCreate", rank);
  lane_ = std::make_shared<const Lane>(lane);
  in_flight_ = std::make_unique<InFlight>(lane_);
  alive_ = std::make_unique<Alive>(lane_, patience);
  lookout_ = std::make_unique<Lookout>(lane_, *alive_, peers, patience);
}

Session::~Session() {
  end();
  lookout_.reset();
  if (!left_) synchronize();
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
  const std::string last = alive_->last_error(comm);
  const std::string detail = last.empty() ? "" : fmt::format(" ({})", last);
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

void Session::check_states(const std::string& what) {
  if (alive_->aborted()) fail_call(nullptr, Result::kRemoteError, what);
  for (const Comm comm : alive_->all()) {
    const Result state = alive_->state_of(comm);
    if (state != Result::kSuccess) fail_call(comm, state, what);
  }
}

void Session::check_wait(std::chrono::milliseconds waited, const std::string& what) {
  lookout_->rank_waits(waited);
  check_peers();
  check_states(what);
  if (waited < patience_) return;
  const std::chrono::duration<double> seconds = patience_;
  give_up(Error(ErrorKind::kRuntime, fmt::format("rank {} has waited {:.3g} s for {}", lane_->rank,
                                                 seconds.count(), what))
              .with("fix", kWaitedTooLong));
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

Outcome Session::visit(Comm comm, std::function<Outcome()> call,
                       std::function<void(Alive::Comms&)> back, const std::string& what) {
  if (!alive_->begin_visit(comm, std::move(call), std::move(back))) {
    return {Result::kRemoteError, std::nullopt};
  }
  Patience patience;
  while (!alive_->visit_is_over()) {
    check_wait(patience.waited(), what);
    patience.pause();
  }
  return alive_->end_visit();
}

namespace {

// A new communicator, where there is one, is alive.
std::function<void(Alive::Comms&)> joins(std::shared_ptr<Comm> made) {
  return [made = std::move(made)](Alive::Comms& alive) {
    if (*made != nullptr) alive.push_back(*made);
  };
}

}  // namespace

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
  if (!in_flight_->has_room()) poll_until([&] { return in_flight_->has_room(); }, what);
  check_wait(std::chrono::milliseconds(0), what);
  in_flight_->drop_reached();
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
  in_flight_->count(calls.size());
}

Outcome Session::call_directly(Comm comm, std::span<const GroupCall> calls,
                               const std::string& what) {
  constexpr Outcome kCut{Result::kRemoteError, std::nullopt};
  if (!alive_->enter(comm)) return kCut;
  Outcome outcome = make_group(*lane_, comm, calls);
  if (!alive_->come_out()) return kCut;
  const auto over = [&] {
    outcome.result = alive_->progress_of(comm);
    return outcome.result != Result::kInProgress;
  };
  if (outcome.result == Result::kInProgress) poll_until(over, what);
  return outcome;
}

void Session::await(Event event, const std::string& what) {
  if (side_.stream_waits()) {
    check_peers();
    return side_.order_after(lane_->api, event);
  }
  poll_until([&] { return in_flight_->reached(event); }, what);
}

void Session::let_go(Event event, std::shared_ptr<void> memory) noexcept {
  if (left_ || !side_.stream_waits()) {
    return in_flight_->keep(event, std::move(memory));
  }
  try {
    side_.order_after(lane_->api, event);
  } catch (const Error& reason) {
    peers_.tell(reason);
    abort();
  }
  in_flight_->release(event);
}

void Session::drain(const std::string& what) {
  struct Mark {
    InFlight& calls;
    const Event event;
    ~Mark() { calls.release(event); }
  };
  const Mark all{*in_flight_, in_flight_->mark()};
  poll_until([&] { return in_flight_->reached(all.event); }, what);
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
  const auto back = [comm, finalized](Alive::Comms& alive) {
    if (*finalized == Result::kSuccess) std::erase(alive, comm);
  };
  const Outcome outcome = visit(comm, call, back, "the end of a communicator");
  check(lane_->api, outcome.result, "ncclCommFinalize", lane_->rank, comm);
}

void Session::end() noexcept {
  Alive::Comms comms = alive_->all();
  std::ranges::reverse(comms);
  try {
    for (const Comm comm : comms) end_one(comm);
  } catch (const Error& reason) {
    if (!peers_.failure()) peers_.tell(reason);
  }
  if (!alive_->empty()) abort();
}

void Session::synchronize() {
  const process::LastResort limit(kDeviceTakes, [this] {
    peers_.end_process(fmt::format("the device of rank {} does not come to an end", lane_->rank));
    return std::string();
  });
  lane_->api.StreamSynchronize(lane_->stream);
}

void Session::abort() noexcept {
  left_ = alive_->abort();
  if (left_) return in_flight_->leave();
  // Nothing writes to memory of others after this.
  synchronize();
  in_flight_->forget();
}

}  // namespace shardlab::nccl
