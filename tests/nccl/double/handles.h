// handles.h - the data behind the handles that the double gives out.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "backends/nccl/api.h"
#include "tests/nccl/double/deadline.h"
#include "tests/nccl/double/stream.h"
#include "tests/nccl/double/transfer.h"

namespace shardlab::nccl {

struct StreamHandle {
  nccl_double::StreamState state;
};

struct EventHandle {
  std::shared_ptr<nccl_double::EventState> state = std::make_shared<nccl_double::EventState>();
};

/// Handles of communicators stay until the process ends, so that use after the end is seen.
struct CommHandle {
  enum class State { kStarts, kReady, kMustBePolled, kSplits, kFinalized, kDestroyed, kAborted };

  /// Guards everything but the place.
  std::mutex mutex;
  std::shared_ptr<nccl_double::Place> place;
  State state = State::kStarts;
  bool blocking = true;
  std::string error;  ///< of the last call that failed
  Result failure = Result::kSuccess;
  std::uint64_t sequence = 0;
  std::atomic<int> in_flight{0};
  nccl_double::Deadline deadline;  ///< of a start or split under way

  // A split under way, and how many there have been.
  std::uint64_t splits = 0;
  int color = 0;
  Comm* made = nullptr;

  /// The thread that is inside of a call of it, and the name of the call.
  std::atomic<std::thread::id> inside{};
  std::atomic<const char*> inside_call{""};
  /// Calls for which a blocking communicator has made connections: kind, count, type, op and peer.
  /// Used by the thread inside.
  using Reach = std::tuple<int, std::size_t, int, int, int>;
  std::set<Reach> connected;
};

}  // namespace shardlab::nccl

namespace shardlab::nccl_double {

/// The device that cudaSetDevice chose, numbered over the host whatever CUDA_VISIBLE_DEVICES shows.
int current_device();
/// True when streams have unfinished work of the host's or waits for events: the input of a call
/// may be computed later than the call is made.
bool work_pending();

/// Whether CUDA_LAUNCH_BLOCKING is set: then every launch waits for its end.
bool launches_block();
/// CUDA's errors stay: from launch number SHARDLAB_NCCL_DOUBLE_BREAKS (1: the first) on the device
/// of this process does nothing any more, and all calls about it fail.
void count_launch();
bool device_is_broken();

/// ncclGetVersion: that of the newest headers, or SHARDLAB_NCCL_DOUBLE_VERSION.
int version();

/// The running thread is inside of a call of a communicator while this object lives. Ends the
/// process where another thread is inside: NCCL's calls on one communicator must not overlap, and
/// an abort frees memory that the other thread uses.
class Inside {
 public:
  Inside(nccl::Comm comm, const char* call);
  ~Inside();
  Inside(Inside&& other) noexcept;
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  nccl::Comm comm_;  ///< null: it was inside before, or there is none
};

/// The number of threads NCCL would have made: one for each group, start, split and finalize of
/// communicators that do not block.
std::atomic<int>& threads_made();

/// The memory of the device that communicators of this process keep until they end: 4 MiB each.
std::size_t communicator_bytes();

/// Checks whether the communicator's start or split has ended. With its mutex held.
nccl::Result poll(nccl::CommHandle& comm);
/// Registers a new handle.
nccl::Comm new_comm(std::shared_ptr<Place> place, bool blocking);
/// Keeps an error for ncclGetLastError.
nccl::Result refuse(nccl::CommHandle& comm, nccl::Result result, std::string text);

/// Keeps the end of a communicator for the end of the running thread's group. False: there is no
/// group, or this version does not group ends.
bool end_with_group(nccl::Comm comm);
/// The rest of destroying or aborting these, whose calls have been stopped: waits for all work of
/// the device, whose memory is freed, and for the other ranks of the node, whose connections close.
void finish_ends(const std::vector<nccl::Comm>& comms);

/// Adds a call to the group of the running thread, or runs it as a group of its own.
nccl::Result submit(nccl::Comm comm, nccl::Stream stream, const Operation& operation);

}  // namespace shardlab::nccl_double
