// Communicators of the double: start, split, error polling, end. The rules of NCCL's guide for an
// end are enforced: destroying and aborting wait for the other ranks of the node, and for all work
// of the device; and no thread may be inside of another call of the communicator meanwhile.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "tests/nccl/double/handles.h"

namespace shardlab::nccl_double {

using nccl::Comm;
using nccl::CommHandle;
using nccl::Result;
using State = CommHandle::State;

namespace {

constexpr std::uint32_t kMagic = 0x5A4DB10B;
constexpr unsigned int kConfigMagic = 0xcafebeef;
constexpr int kNewestVersion = 22809;

struct IdContent {
  std::uint32_t magic = kMagic;
  RegionName region;
};

// Keeps all handles, and reports at the end those that were left alive. A thread that was left
// behind may use them until the process is gone.
class Handles {
 public:
  Comm add(std::unique_ptr<CommHandle> handle) {
    const std::lock_guard lock(mutex_);
    return all_.emplace_back(handle.release());
  }
  // The teardown of CUDA waits for threads that are inside of it.
  ~Handles() {
    const Deadline deadline;
    while (std::ranges::any_of(all_, [](const CommHandle* handle) {
      return handle->inside.load() != std::thread::id();
    })) {
      if (deadline.passed()) hang("the end of the process waits for a thread inside of NCCL");
      std::this_thread::yield();
    }
    const auto alive = std::ranges::count_if(all_, [](const CommHandle* handle) {
      return handle->state != State::kDestroyed && handle->state != State::kAborted;
    });
    if (alive > 0) fmt::print(stderr, "nccl double: {} communicators were never ended\n", alive);
  }

 private:
  std::mutex mutex_;
  std::vector<CommHandle*>& all_ = *new std::vector<CommHandle*>;
};

Handles& handles() {
  static Handles all;
  return all;
}

std::string missing(std::uint64_t come, int ranks) {
  std::string text;
  for (int rank = 0; rank < ranks; ++rank) {
    if (((come >> rank) & 1) == 0) text += fmt::format("{}{}", text.empty() ? "" : ",", rank);
  }
  return text;
}

// From 2.30 on ranks may share a device.
void check_devices(const Region& region) {
  constexpr int kMayShare = 23000;
  const char* shared = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  if (shared != nullptr && std::atoi(shared) == 1 && version() >= kMayShare) return;
  for (int a = 0; a < region.ranks(); ++a) {
    for (int b = 0; b < a; ++b) {
      if (region.head().device[a].load() != region.head().device[b].load()) continue;
      if (region.head().node[a].load() != region.head().node[b].load()) continue;
      region.fail(fmt::format("ranks {} and {} are both on device {}", b, a,
                              region.head().device[a].load() - 1));
    }
  }
}

// A rank that ends or dies closes its connections, which a call that waits for it hears. Asked
// before the ranks that have come are counted: one that leaves after the last has come is no loss.
Result who_has_left(CommHandle& comm) {
  const Region& region = comm.place->region;
  for (int rank = 0; rank < region.ranks() && comm.blocking; ++rank) {
    if (region.has_left(rank)) {
      return refuse(comm, Result::kRemoteError, fmt::format("rank {} has left", rank));
    }
  }
  return Result::kSuccess;
}

Result poll_start(CommHandle& comm) {
  const Region& region = comm.place->region;
  const Result left = who_has_left(comm);
  const std::uint64_t come = region.head().attached.load(std::memory_order_acquire);
  const std::uint64_t all = region.ranks() == 64 ? ~0ull : (1ull << region.ranks()) - 1;
  if (come == all) {
    check_devices(region);
    if (region.failed()) return refuse(comm, Result::kInvalidUsage, region.failure());
    comm.state = State::kReady;
    return Result::kSuccess;
  }
  if (left != Result::kSuccess) return left;
  if (!comm.deadline.passed()) return Result::kInProgress;
  hang(fmt::format("rank {}: ranks {} of {} have not come", comm.place->rank,
                   missing(come, region.ranks()), region.ranks()));
}

// A number for this process's host.
std::uint64_t node() {
  const char* name = std::getenv("SHARDLAB_HOST");
  return std::hash<std::string>()(name == nullptr ? "" : name);
}

Result attach(const RegionName& name, int ranks, int rank, bool blocking, Comm* made,
              std::string& error) {
  auto place = std::make_shared<Place>();
  place->rank = rank;
  error = Region::attach(name, ranks, place->region);
  if (!error.empty()) return Result::kSystemError;
  RegionHead& head = place->region.head();
  head.device[rank].store(current_device() + 1);
  head.process[rank].store(static_cast<std::int32_t>(getpid()));
  head.node[rank].store(node());
  const std::uint64_t bit = 1ull << rank;
  if ((head.attached.fetch_or(bit, std::memory_order_acq_rel) & bit) != 0) {
    error = fmt::format("two processes came as rank {}", rank);
    place->region.fail(error);
    return Result::kInvalidUsage;
  }
  // Another thread may wait for the handle while this one waits for ranks.
  std::atomic_ref(*made).store(new_comm(std::move(place), blocking));
  return Result::kSuccess;
}

struct Member {
  int key;
  int rank;  // in the parent
  auto operator<=>(const Member&) const = default;
};

// Entries of all ranks once they are there; else empty.
std::vector<Member> members_of_split(CommHandle& comm) {
  const Region& region = comm.place->region;
  std::vector<Member> members;
  for (int rank = 0; rank < region.ranks(); ++rank) {
    SplitEntry& entry = region.head().split[comm.splits % 2][rank];
    if (entry.entered.load(std::memory_order_acquire) < comm.splits) return {};
    if (entry.color == comm.color) members.push_back({entry.key, rank});
  }
  std::ranges::sort(members);
  return members;
}

Result poll_split(CommHandle& comm) {
  const Region& region = comm.place->region;
  const Result left = who_has_left(comm);
  const std::vector<Member> members = members_of_split(comm);
  if (members.empty()) {
    if (left != Result::kSuccess) return left;
    if (!comm.deadline.passed()) return Result::kInProgress;
    hang(fmt::format("rank {}: a rank has not come to ncclCommSplit", comm.place->rank));
  }
  if (comm.color == nccl::kNoColor) {
    comm.state = State::kReady;
    return Result::kSuccess;
  }
  SplitEntry& first = region.head().split[comm.splits % 2][members.front().rank];
  if (members.front().rank == comm.place->rank && first.made_for.load() != comm.splits) {
    first.made = Region::make();
    first.made_for.store(comm.splits, std::memory_order_release);
    region.wake_all();
  }
  if (first.made_for.load(std::memory_order_acquire) != comm.splits) return Result::kInProgress;
  const auto mine = std::ranges::find(members, comm.place->rank, &Member::rank);
  std::string error;
  const Result result =
      attach(first.made, static_cast<int>(members.size()), static_cast<int>(mine - members.begin()),
             comm.blocking, comm.made, error);
  if (result != Result::kSuccess) return refuse(comm, result, error);
  comm.state = State::kReady;
  return Result::kSuccess;
}

// For a communicator that waits for its calls: blocks until it is ready.
Result settle(Comm comm) {
  while (true) {
    {
      const std::lock_guard lock(comm->mutex);
      const Result result = poll(*comm);
      if (result != Result::kInProgress || !comm->blocking) return result;
    }
    comm->place->region.await_bell(comm->place->rank, comm->place->region.bell(comm->place->rank));
  }
}

Result begin_split(CommHandle& comm, int color, int key, Comm* made) {
  if (comm.state != State::kReady) {
    return refuse(comm, Result::kInvalidUsage, "ncclCommSplit of a communicator that is not ready");
  }
  if (comm.in_flight > 0) {
    return refuse(comm, Result::kInvalidUsage, "ncclCommSplit while calls are in flight");
  }
  comm.splits += 1;
  comm.color = color;
  comm.made = made;
  comm.state = State::kSplits;
  comm.deadline.restart();
  *made = nullptr;
  SplitEntry& entry = comm.place->region.head().split[comm.splits % 2][comm.place->rank];
  entry.color = color;
  entry.key = key;
  entry.entered.store(comm.splits, std::memory_order_release);
  comm.place->region.wake_all();
  return Result::kSuccess;
}

Result begin_end(Comm comm, State state) {
  const std::lock_guard lock(comm->mutex);
  if (comm->state == State::kDestroyed || comm->state == State::kAborted) {
    return refuse(*comm, Result::kInvalidUsage, "the communicator has ended before");
  }
  if (state == State::kDestroyed && comm->in_flight > 0) {
    return refuse(*comm, Result::kInvalidUsage, "ncclCommDestroy while calls are in flight");
  }
  comm->state = state;
  comm->place->aborted = state == State::kAborted;
  comm->place->region.wake(comm->place->rank);
  return Result::kSuccess;
}

Result end(Comm comm, State state) {
  if (comm == nullptr) return Result::kInvalidArgument;
  const Inside here(comm, state == State::kAborted ? "ncclCommAbort" : "ncclCommDestroy");
  const Result result = begin_end(comm, state);
  if (result == Result::kSuccess && !end_with_group(comm)) finish_ends({comm});
  return result;
}

const char* call_of(const CommHandle& comm) {
  return comm.state == State::kAborted ? "ncclCommAbort" : "ncclCommDestroy";
}

}  // namespace

Inside::Inside(Comm comm, const char* call) : comm_(comm) {
  if (comm == nullptr) return;
  const std::thread::id me = std::this_thread::get_id();
  std::thread::id nobody;
  if (comm->inside.compare_exchange_strong(nobody, me)) {
    comm->inside_call = call;
    return;
  }
  comm_ = nullptr;
  if (nobody == me) return;
  forbid(fmt::format("rank {}: {} while another thread is in {} of the same communicator",
                     comm->place->rank, call, comm->inside_call.load()));
}

Inside::~Inside() {
  if (comm_ != nullptr) comm_->inside = std::thread::id();
}

Inside::Inside(Inside&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}

std::atomic<int>& threads_made() {
  static std::atomic<int> count{0};
  return count;
}

int version() {
  const char* text = std::getenv("SHARDLAB_NCCL_DOUBLE_VERSION");
  return text == nullptr ? kNewestVersion : std::atoi(text);
}

namespace {

std::atomic<std::size_t>& living() {
  static std::atomic<std::size_t> count{0};
  return count;
}

}  // namespace

std::size_t communicator_bytes() { return living() << 22; }

void finish_ends(const std::vector<Comm>& comms) {
  if (comms.empty()) return;
  living() -= comms.size();
  Deadline deadline;
  while (!StreamState::all_idle()) {
    if (deadline.passed()) {
      hang(fmt::format("rank {}: {} waits for the work of other communicators on the device",
                       comms.front()->place->rank, call_of(*comms.front())));
    }
    std::this_thread::yield();
  }
  for (const Comm comm : comms) {
    const Region& region = comm->place->region;
    region.head().ended.fetch_or(1ull << comm->place->rank);
    region.wake_all();
  }
  for (const Comm comm : comms) {
    const Place& place = *comm->place;
    deadline.restart();
    while (true) {
      const std::uint32_t bell = place.region.bell(place.rank);
      const std::vector<int> left = place.region.left_on_node(place.rank);
      if (left.empty()) break;
      if (deadline.passed()) {
        hang(fmt::format("rank {}: {} waits for ranks {} of its node", place.rank, call_of(*comm),
                         fmt::join(left, ",")));
      }
      place.region.await_bell(place.rank, bell);
    }
  }
}

Comm new_comm(std::shared_ptr<Place> place, bool blocking) {
  ++living();
  auto handle = std::make_unique<CommHandle>();
  handle->place = std::move(place);
  handle->blocking = blocking;
  return handles().add(std::move(handle));
}

Result refuse(CommHandle& comm, Result result, std::string text) {
  comm.error = std::move(text);
  return result;
}

Result poll(CommHandle& comm) {
  if (comm.state == State::kDestroyed || comm.state == State::kAborted) {
    return refuse(comm, Result::kInvalidUsage, "the communicator has ended");
  }
  if (comm.place->region.failed()) {
    return refuse(comm, Result::kRemoteError, comm.place->region.failure());
  }
  if (comm.failure != Result::kSuccess) return comm.failure;
  Result result = Result::kSuccess;
  if (comm.state == State::kStarts) result = poll_start(comm);
  if (comm.state == State::kSplits) result = poll_split(comm);
  if (comm.state == State::kMustBePolled) comm.state = State::kReady;
  if (result != Result::kInProgress) comm.failure = result;
  return result;
}

}  // namespace shardlab::nccl_double

using namespace shardlab::nccl_double;
using shardlab::nccl::Config;
using shardlab::nccl::UniqueId;

extern "C" {

Result ncclGetVersion(int* version) {
  *version = shardlab::nccl_double::version();
  return Result::kSuccess;
}

Result ncclGetUniqueId(UniqueId* id) {
  static_assert(sizeof(IdContent) <= sizeof(UniqueId));
  IdContent content;
  content.region = Region::make();
  if (content.region.descriptor < 0) return Result::kSystemError;
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id, &content, sizeof(content));
  return Result::kSuccess;
}

Result ncclCommInitRankConfig(Comm* comm, int ranks, UniqueId id, int rank, Config* config) {
  IdContent content;
  std::memcpy(static_cast<void*>(&content), &id, sizeof(content));
  const bool known = config == nullptr || (config->magic == kConfigMagic && config->size > 0);
  if (!known || content.magic != kMagic || ranks < 1 || ranks > kMaxRanks || rank < 0 ||
      rank >= ranks) {
    return Result::kInvalidArgument;
  }
  // The environment wins, as with NCCL.
  const char* told = std::getenv("NCCL_COMM_BLOCKING");
  const bool blocking =
      told != nullptr ? std::atoi(told) != 0 : config == nullptr || config->blocking != 0;
  std::string error;
  const Result result = attach(content.region, ranks, rank, blocking, comm, error);
  if (result != Result::kSuccess) {
    fmt::print(stderr, "nccl double: rank {}: {}\n", rank, error);
    return result;
  }
  (*comm)->place->region.wake_all();
  const Inside here(*comm, "ncclCommInitRankConfig");
  if (blocking) return settle(*comm);
  threads_made() += 1;
  return Result::kInProgress;
}

Result ncclCommSplit(Comm comm, int color, int key, Comm* made, Config*) {
  if (comm == nullptr || made == nullptr) return Result::kInvalidArgument;
  const Inside here(comm, "ncclCommSplit");
  {
    const std::lock_guard lock(comm->mutex);
    const Result result = begin_split(*comm, color, key, made);
    if (result != Result::kSuccess) return result;
    if (!comm->blocking) {
      threads_made() += 1;
      return Result::kInProgress;
    }
  }
  const Result result = settle(comm);
  const Inside of_the_new_one(*made, "ncclCommSplit");
  return result == Result::kSuccess && *made != nullptr ? settle(*made) : result;
}

Result ncclCommGetAsyncError(Comm comm, Result* error) {
  if (comm == nullptr) return Result::kInvalidArgument;
  const Inside here(comm, "ncclCommGetAsyncError");
  const std::lock_guard lock(comm->mutex);
  *error = poll(*comm);
  return Result::kSuccess;
}

Result ncclCommFinalize(Comm comm) {
  if (comm == nullptr) return Result::kInvalidArgument;
  const Inside here(comm, "ncclCommFinalize");
  const std::lock_guard lock(comm->mutex);
  if (comm->state != State::kReady) {
    return refuse(*comm, Result::kInvalidUsage, "ncclCommFinalize of one that is not ready");
  }
  comm->state = State::kFinalized;
  if (comm->blocking) return Result::kSuccess;
  threads_made() += 1;
  return Result::kInProgress;
}

Result ncclCommDestroy(Comm comm) { return end(comm, State::kDestroyed); }

Result ncclCommAbort(Comm comm) { return end(comm, State::kAborted); }

const char* ncclGetLastError(Comm comm) {
  const Inside here(comm, "ncclGetLastError");
  return comm == nullptr ? "no communicator" : comm->error.c_str();
}

// These two exist in the double only.
int shardlab_nccl_double_threads() { return threads_made(); }
bool shardlab_nccl_double_is_inside(Comm comm) { return comm->inside.load() != std::thread::id(); }

const char* ncclGetErrorString(Result result) {
  constexpr const char* kTexts[] = {"no error",       "unhandled cuda error", "system error",
                                    "internal error", "invalid argument",     "invalid usage",
                                    "remote error",   "in progress"};
  const auto index = static_cast<std::size_t>(result);
  return index < std::size(kTexts) ? kTexts[index] : "unknown result code";
}

}  // extern "C"
