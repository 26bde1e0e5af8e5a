// noting_nccl.h - functions of NCCL and CUDA that only note their callers, and a session over them.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/nccl/session.h"
#include "backends/shared/patience.h"
#include "tensor/cpu_device.h"

namespace shardlab::nccl::noting {

using Heard = std::vector<std::string>;

// The time that a busy machine may take to start a few threads: for waits that must end, and for
// waits that must not.
inline constexpr std::chrono::milliseconds kSoon{300};
inline constexpr std::chrono::milliseconds kLong{2'000};
inline constexpr int kNewest = 22809;

// The calls of all threads; the version is that of the library.
struct Library {
  std::mutex mutex;
  Heard heard;
  std::intptr_t communicators = 0;
  int version = 22809;
  std::atomic<bool> over{true};   // the posted work
  std::atomic<bool> busy{false};  // the stream of collectives
  Result state = Result::kSuccess;
  Result answer = Result::kSuccess;      // to an all_reduce
  Result end = Result::kSuccess;         // of a group
  std::atomic<int> polls{0};             // as often communicators say that they are in progress
  std::atomic<bool> broken{false};       // the device
  bool together = false;                 // an abort waits for those of the other two
  bool blocking = false;                 // as the last communicator was asked to be
  std::vector<std::thread::id> callers;  // of groups

  std::function<void()> inside = [] {};  // of the end of a group with calls
  std::atomic<bool> calls{false};        // made in the open group
  std::atomic<int> aborted{0};

  void call(std::thread::id caller) {
    const std::lock_guard lock(mutex);
    callers.push_back(caller);
  }
  void hear(std::string what) {
    const std::lock_guard lock(mutex);
    heard.push_back(std::move(what));
  }
};
inline Library& library() {
  static Library one;
  return one;
}

inline std::string named(const char* call, Comm comm) {
  return fmt::format("{} {}", call, reinterpret_cast<std::intptr_t>(comm));
}
inline Result made(Comm* comm) {
  *comm = reinterpret_cast<Comm>(++library().communicators);
  return Result::kSuccess;
}

inline void note_groups(Api& api) {
  api.GroupStart = [] {
    library().hear("group");
    return Result::kSuccess;
  };
  api.GroupEnd = [] {
    if (library().calls.exchange(false)) library().inside();
    library().hear("end of group");
    library().call(std::this_thread::get_id());
    return library().end;
  };
  api.AllReduce = [](const void*, void*, std::size_t, DataType, RedOp, Comm, Stream) {
    library().calls = true;
    return library().answer;
  };
  api.Send = [](const void*, std::size_t, DataType, int, Comm, Stream) { return Result::kSuccess; };
  api.Broadcast = [](const void*, void*, std::size_t, DataType, int, Comm, Stream) {
    return Result::kSuccess;
  };
}

inline Api noting_api() {
  Api api{};
  api.GetVersion = [](int* version) {
    *version = library().version;
    return Result::kSuccess;
  };
  api.CommInitRankConfig = [](Comm* comm, int, UniqueId, int, Config* config) {
    library().blocking = config->blocking == 1;
    return made(comm);
  };
  api.CommSplit = [](Comm, int, int, Comm* comm, Config*) { return made(comm); };
  api.CommGetAsyncError = [](Comm, Result* state) {
    *state = library().polls > 0 && library().polls-- > 0 ? Result::kInProgress : library().state;
    return Result::kSuccess;
  };
  api.CommFinalize = [](Comm) { return Result::kSuccess; };
  api.CommDestroy = [](Comm comm) {
    library().hear(named("destroy", comm));
    return Result::kSuccess;
  };
  api.CommAbort = [](Comm comm) {
    library().hear(named("abort", comm));
    library().aborted += 1;
    library().over = true;
    const backends::Patience since;
    while (library().together && library().aborted < 3 && since.waited() < kLong) {
      std::this_thread::yield();
    }
    if (library().together && library().aborted < 3) library().hear("alone");
    return Result::kSuccess;
  };
  api.GetErrorString = [](Result) { return "an error"; };
  api.GetLastError = [](Comm) { return ""; };
  note_groups(api);
  api.GetDeviceCount = [](int* count) {
    *count = 1;
    return CudaError::kSuccess;
  };
  api.SetDevice = [](int) { return CudaError::kSuccess; };
  api.StreamCreateWithFlags = [](Stream*, unsigned int) { return CudaError::kSuccess; };
  api.StreamDestroy = [](Stream) { return CudaError::kSuccess; };
  api.StreamQuery = [](Stream) {
    if (library().broken) return CudaError::kIllegalAddress;
    return library().busy ? CudaError::kNotReady : CudaError::kSuccess;
  };
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
  std::optional<Error> failure() const override {
    if (!failed) return std::nullopt;
    return Error(ErrorKind::kRuntime, "rank 1 failed");
  }
  void tell(const Error& reason) const override { library().hear("told: " + reason.summary()); }
  [[noreturn]] void end_process(const std::string&) const override {
    ends_well ? _exit(0) : std::abort();
  }
  std::atomic<bool> failed{false};
  std::atomic<bool> ends_well{false};  ///< with the process
};

// A session with a world and two groups of it.
struct Stage {
  const Api api = noting_api();
  const std::unique_ptr<Device> device = make_cpu_device({});
  const std::unique_ptr<LocalSide> side = std::make_unique<LocalSide>(*device);
  NotingPeers peers;
  std::unique_ptr<Session> session;
  Comm world = nullptr;

  explicit Stage(int version = kNewest, std::chrono::milliseconds patience = kLong) {
    library().heard.clear();
    library().communicators = 0;
    library().version = version;
    library().over = true;
    library().busy = false;
    library().state = Result::kSuccess;
    library().answer = Result::kSuccess;
    library().end = Result::kSuccess;
    library().polls = 0;
    library().broken = false;
    library().together = false;
    library().inside = [] {};
    library().calls = false;
    library().aborted = 0;
    session = std::make_unique<Session>(api, *side, peers, 0, 0, patience);
    world = session->join({}, 2, 0);
    session->split(world, 0, 0);
    session->split(world, 0, 0);
  }

  void post(Comm comm, const GroupCall& call) const { post(comm, std::vector{call}); }
  void post(Comm comm, const std::vector<GroupCall>& calls) const {
    session->post(comm, calls, nullptr, "the sum");
  }
  /// Whether the rank makes these calls itself, and not by a thread of their own.
  bool makes_itself(Comm comm, const std::vector<GroupCall>& calls) const {
    library().callers.clear();
    post(comm, calls);
    return library().callers == std::vector{std::this_thread::get_id()};
  }
};

inline constexpr GroupCall kSum{.count = 4, .type = DataType::kFloat32};

inline std::string failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.summary();
  }
  return "nothing failed";
}

inline const Heard kAbortedAtOnce{"group", "abort 1", "abort 2", "abort 3", "end of group"};

inline Heard with_first(std::string first, const Heard& rest) {
  Heard all{std::move(first)};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

/// Runs `body` in a process of its own: it spoils nothing here. Returns its result.
inline bool holds_in_a_child(const std::function<bool()>& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0;
}

}  // namespace shardlab::nccl::noting
