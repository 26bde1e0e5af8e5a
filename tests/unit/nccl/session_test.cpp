// The session over functions that only write down who was called: in which order NCCL hears of
// things when a rank ends, fails or is refused. What NCCL does of it is in tests/nccl.
#include "backends/nccl/session.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "tensor/cpu_device.h"

using namespace shardlab;
using namespace shardlab::nccl;

namespace {

using Heard = std::vector<std::string>;

// Of all threads; the version is that of the library.
struct Library {
  std::mutex mutex;
  Heard heard;
  std::intptr_t communicators = 0;
  int version = 22809;
  std::atomic<bool> over{true};  // what was posted
  Result state = Result::kSuccess;

  void hear(std::string what) {
    const std::lock_guard lock(mutex);
    heard.push_back(std::move(what));
  }
};
Library& library() {
  static Library one;
  return one;
}

std::string named(const char* call, Comm comm) {
  return fmt::format("{} {}", call, reinterpret_cast<std::intptr_t>(comm));
}
Result made(Comm* comm) {
  *comm = reinterpret_cast<Comm>(++library().communicators);
  return Result::kSuccess;
}

Api noting_api() {
  Api api{};
  api.GetVersion = [](int* version) {
    *version = library().version;
    return Result::kSuccess;
  };
  api.CommInitRankConfig = [](Comm* comm, int, UniqueId, int, Config*) { return made(comm); };
  api.CommSplit = [](Comm, int, int, Comm* comm, Config*) { return made(comm); };
  api.CommGetAsyncError = [](Comm, Result* state) {
    *state = library().state;
    return Result::kSuccess;
  };
  api.CommFinalize = [](Comm) { return Result::kSuccess; };
  api.CommDestroy = [](Comm comm) {
    library().hear(named("destroy", comm));
    return Result::kSuccess;
  };
  api.CommAbort = [](Comm comm) {
    library().hear(named("abort", comm));
    library().over = true;
    return Result::kSuccess;
  };
  api.GetErrorString = [](Result) { return "an error"; };
  api.GetLastError = [](Comm) { return ""; };
  api.GroupStart = [] {
    library().hear("group");
    return Result::kSuccess;
  };
  api.GroupEnd = [] {
    library().hear("end of group");
    return Result::kSuccess;
  };
  api.GetDeviceCount = [](int* count) {
    *count = 1;
    return CudaError::kSuccess;
  };
  api.SetDevice = [](int) { return CudaError::kSuccess; };
  api.StreamCreateWithFlags = [](Stream*, unsigned int) { return CudaError::kSuccess; };
  api.StreamDestroy = [](Stream) { return CudaError::kSuccess; };
  api.StreamSynchronize = [](Stream) { return CudaError::kSuccess; };
  api.EventCreateWithFlags = [](Event*, unsigned int) { return CudaError::kSuccess; };
  api.EventDestroy = [](Event) { return CudaError::kSuccess; };
  api.EventRecord = [](Event, Stream) { return CudaError::kSuccess; };
  api.EventQuery = [](Event) {
    return library().over ? CudaError::kSuccess : CudaError::kNotReady;
  };
  api.CudaGetLastError = [] { return CudaError::kSuccess; };
  api.CudaGetErrorString = [](CudaError) { return "an error"; };
  return api;
}

class NotingPeers final : public Peers {
 public:
  std::optional<Error> failure() const override { return failed; }
  void tell(const Error& reason) const override { library().hear("told: " + reason.summary()); }
  std::optional<Error> failed;
};

// A session with a world and two groups of it.
struct Stage {
  const Api api = noting_api();
  const std::unique_ptr<Device> device = make_cpu_device({});
  const std::unique_ptr<LocalSide> side = make_local_side(*device);
  NotingPeers peers;
  std::unique_ptr<Session> session;
  Comm world = nullptr;

  explicit Stage(int version = 22809) {
    library().heard.clear();
    library().communicators = 0;
    library().version = version;
    library().over = true;
    library().state = Result::kSuccess;
    session = std::make_unique<Session>(api, *side, peers, 0, 0, std::chrono::milliseconds(20));
    world = session->join({}, 2, 0);
    session->split(world, 0, 0);
    session->split(world, 0, 0);
  }
};

std::string failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.summary();
  }
  return "nothing failed";
}

const Heard kAbortedAtOnce{"group", "abort 1", "abort 2", "abort 3", "end of group"};

Heard with_first(std::string first, const Heard& rest) {
  Heard all{std::move(first)};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

}  // namespace

TEST_CASE("B-16 without a failure communicators are destroyed, the newest first") {
  Stage stage;
  stage.session->end();
  CHECK(library().heard == Heard{"destroy 3", "destroy 2", "destroy 1"});
  stage.session.reset();
  CHECK(library().heard.size() == 3);
}

TEST_CASE("B-16 after a failure all are aborted in one group, and none is destroyed") {
  Stage stage;
  stage.peers.failed = Error(ErrorKind::kRuntime, "rank 1 failed");
  stage.session->end();
  CHECK(library().heard == kAbortedAtOnce);
}

TEST_CASE("B-16 before NCCL 2.24.3 each abort has a thread, and no group") {
  Stage stage(22304);
  stage.session->abort();
  std::ranges::sort(library().heard);
  CHECK(library().heard == Heard{"abort 1", "abort 2", "abort 3"});
}

TEST_CASE("B-16 a rank that fails of its own tells the others before it aborts") {
  Stage stage;
  library().state = Result::kSystemError;
  CHECK(failure_of([&] { stage.session->drain("the sum"); }) == "the sum: an error");
  CHECK(library().heard == with_first("told: the sum: an error", kAbortedAtOnce));
}

TEST_CASE("B-16 a wait lasts no longer than the patience, and says for what it was") {
  Stage stage;
  library().over = false;
  const std::string reason = "rank 0 has waited 0.02 s for the sum";
  CHECK(failure_of([&] { stage.session->drain("the sum"); }) == reason);
  CHECK(library().heard == with_first("told: " + reason, kAbortedAtOnce));
}

TEST_CASE("B-16 a call that NCCL refuses closes its group, is told and aborts") {
  Stage stage;
  const auto refuse = [] { fail(ErrorKind::kRuntime, "refused"); };
  CHECK(failure_of([&] { stage.session->post(stage.world, refuse, "the sum"); }) == "refused");
  Heard expected{"group", "end of group", "told: refused"};
  expected.insert(expected.end(), kAbortedAtOnce.begin(), kAbortedAtOnce.end());
  CHECK(library().heard == expected);
}

TEST_CASE("B-16 after a cut no communicator is made") {
  Stage stage;
  stage.session->cut();
  stage.session->abort();
  CHECK(library().heard == kAbortedAtOnce);
  CHECK(failure_of([&] { stage.session->join({}, 2, 0); }) == "ncclCommInitRankConfig: an error");
  CHECK(library().communicators == 3);
}
