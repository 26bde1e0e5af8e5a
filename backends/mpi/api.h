// api.h - the functions of MPI that this backend calls, as a table that a module of its own fills
// in: linking MPI would make every start of the program slower, and the rest of the backend
// compiles without it. Messages are bytes. All functions but the last return 0 or an error code.
// One thread calls.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardlab::mpi {

/// A send or receive under way. The memory of its message must stay until it is over.
struct Request {
  std::uint64_t handle = 0;  ///< the library's own, a pointer or a number
};

/// A message of at most kMostBytes.
struct Message {
  void* data;  ///< of a send, only read
  int bytes;
  int peer;  ///< rank in the job
  int tag;
};
inline constexpr std::size_t kMostBytes = std::size_t{1} << 30;

/// The functions that the module fills in.
struct Api {
  /// Starts MPI; later errors are returned, not fatal.
  int (*start)(int* rank, int* size);
  /// Waits for all processes of the job.
  int (*finish)();
  int (*send)(const Message& message, Request* request);
  /// For a message of at most so many bytes: some libraries write a longer one all the same.
  int (*receive)(const Message& message, Request* request);
  /// Whether it is over; then it becomes null.
  int (*test)(Request* request, int* done);
  /// Cancels a receive: it is soon over, unless its message has begun to arrive.
  int (*cancel_receive)(Request* request);
  /// On all processes of the job: a new run begins, and messages that were not received are
  /// forgotten.
  int (*renew)();
  /// Collective over the job.
  int (*broadcast)(void* data, int bytes, int root);
  /// The largest tag of a run.
  int most_tag;
  const char* (*error_text)(int code);
  /// "Open MPI v4.1.4".
  const char* version;
};

/// The module's one symbol.
inline constexpr const char* kTableSymbol = "shardlab_mpi_table";
using TableFunction = Api* (*)();

}  // namespace shardlab::mpi
