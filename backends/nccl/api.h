// api.h - the entry points of NCCL and of the CUDA runtime that this backend calls: types, values,
// and a table of function pointers. Written down here so that the backend compiles where neither is
// installed; api_check.cpp compares it with nccl.h and cuda_runtime.h where these are.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>

namespace shardlab::nccl {

/// Handles are the libraries' own; their contents are never read here.
struct CommHandle;
struct StreamHandle;
struct EventHandle;
using Comm = CommHandle*;
using Stream = StreamHandle*;
using Event = EventHandle*;

/// ncclResult_t.
enum class Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

/// cudaError_t, the values that are used here.
enum class CudaError : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kNoDevice = 100,
  kNotReady = 600,
  kIllegalAddress = 700,
};

/// ncclDataType_t.
enum class DataType : int {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
};

/// ncclRedOp_t, without those that a program makes.
enum class RedOp : int { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4 };

inline constexpr std::size_t kUniqueIdBytes = 128;
/// ncclUniqueId: names a new communicator to all of its ranks.
struct UniqueId {
  char internal[kUniqueIdBytes];
};

/// The form of NCCL 2.18; later libraries read as many bytes as `size`, so that it serves them,
/// too.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 21800;
  int blocking = INT_MIN;  ///< 1: calls return when they are done; 0: at once, with kInProgress
  int cga_cluster_size = INT_MIN;
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
};
/// The oldest library that may abort a communicator while threads are inside of others
/// (NVIDIA/nccl#992).
inline constexpr int kOldestVersion = 21901;
/// Colour of a rank that gets no communicator from a split.
inline constexpr int kNoColor = -1;

inline constexpr unsigned int kStreamNonBlocking = 1;   // not ordered with the default stream
inline constexpr unsigned int kEventDisableTiming = 2;  // orders streams, measures nothing

/// The functions that the backend calls, by the names of the libraries' symbols without their
/// prefix. All of them may be called from any thread; calls on one communicator must not overlap.
struct Api {
  // libnccl
  Result (*GetVersion)(int* version);
  Result (*GetUniqueId)(UniqueId* id);
  Result (*CommInitRankConfig)(Comm* comm, int ranks, UniqueId id, int rank, Config* config);
  Result (*CommSplit)(Comm comm, int color, int key, Comm* made, Config* config);
  Result (*CommGetAsyncError)(Comm comm, Result* error);
  Result (*CommFinalize)(Comm comm);
  Result (*CommDestroy)(Comm comm);
  Result (*CommAbort)(Comm comm);
  const char* (*GetErrorString)(Result result);
  const char* (*GetLastError)(Comm comm);
  Result (*GroupStart)();
  Result (*GroupEnd)();
  Result (*AllReduce)(const void* from, void* to, std::size_t count, DataType type, RedOp op,
                      Comm comm, Stream stream);
  Result (*AllGather)(const void* from, void* to, std::size_t sent, DataType type, Comm comm,
                      Stream stream);
  Result (*ReduceScatter)(const void* from, void* to, std::size_t received, DataType type, RedOp op,
                          Comm comm, Stream stream);
  Result (*Broadcast)(const void* from, void* to, std::size_t count, DataType type, int root,
                      Comm comm, Stream stream);
  Result (*Reduce)(const void* from, void* to, std::size_t count, DataType type, RedOp op, int root,
                   Comm comm, Stream stream);
  Result (*Send)(const void* from, std::size_t count, DataType type, int peer, Comm comm,
                 Stream stream);
  Result (*Recv)(void* to, std::size_t count, DataType type, int peer, Comm comm, Stream stream);

  // libcudart
  CudaError (*GetDeviceCount)(int* count);
  CudaError (*RuntimeGetVersion)(int* version);
  CudaError (*DriverGetVersion)(int* version);
  CudaError (*SetDevice)(int device);
  CudaError (*StreamCreateWithFlags)(Stream* stream, unsigned int flags);
  CudaError (*StreamDestroy)(Stream stream);
  CudaError (*StreamQuery)(Stream stream);
  CudaError (*StreamSynchronize)(Stream stream);
  CudaError (*StreamWaitEvent)(Stream stream, Event event, unsigned int flags);
  CudaError (*EventCreateWithFlags)(Event* event, unsigned int flags);
  CudaError (*EventDestroy)(Event event);
  CudaError (*EventRecord)(Event event, Stream stream);
  CudaError (*EventQuery)(Event event);
  CudaError (*MemGetInfo)(std::size_t* free, std::size_t* total);
  CudaError (*CudaGetLastError)();
  const char* (*CudaGetErrorString)(CudaError error);
};

}  // namespace shardlab::nccl
