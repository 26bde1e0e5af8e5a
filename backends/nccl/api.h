// api.h - the entry points of NCCL and of the CUDA runtime that this backend calls: types, values,
// and a table of function pointers. Written down here so that the backend compiles where neither is
// installed; tests/nccl/api_check.cpp compares it with nccl.h and cuda_runtime.h where these are.
#pragma once

#include <climits>
#include <cstddef>

namespace shardlab::nccl {

/// Handles are the libraries' own; their contents are never read here.
struct CommHandle;
struct StreamHandle;
struct EventHandle;
using Comm = CommHandle*;
using Stream = StreamHandle*;
using Event = EventHandle*;

// Lists of values and of functions: each with the library's own name, so that the test holds all of
// them against it.
// clang-format off
#define SHARDLAB_NCCL_RESULTS(F)                                                              \
  F(kSuccess, 0, ncclSuccess) F(kUnhandledCudaError, 1, ncclUnhandledCudaError)               \
  F(kSystemError, 2, ncclSystemError) F(kInternalError, 3, ncclInternalError)                 \
  F(kInvalidArgument, 4, ncclInvalidArgument) F(kInvalidUsage, 5, ncclInvalidUsage)           \
  F(kRemoteError, 6, ncclRemoteError) F(kInProgress, 7, ncclInProgress)
#define SHARDLAB_CUDA_ERRORS(F)                                                               \
  F(kSuccess, 0, cudaSuccess) F(kInvalidValue, 1, cudaErrorInvalidValue)                      \
  F(kNoDevice, 100, cudaErrorNoDevice) F(kNotReady, 600, cudaErrorNotReady)                   \
  F(kIllegalAddress, 700, cudaErrorIllegalAddress)
#define SHARDLAB_NCCL_TYPES(F)                                                                \
  F(kInt8, 0, ncclInt8) F(kUint8, 1, ncclUint8) F(kInt32, 2, ncclInt32)                       \
  F(kUint32, 3, ncclUint32) F(kInt64, 4, ncclInt64) F(kUint64, 5, ncclUint64)                 \
  F(kFloat16, 6, ncclFloat16) F(kFloat32, 7, ncclFloat32) F(kFloat64, 8, ncclFloat64)         \
  F(kBfloat16, 9, ncclBfloat16)
#define SHARDLAB_NCCL_OPS(F)                                                                  \
  F(kSum, 0, ncclSum) F(kProd, 1, ncclProd) F(kMax, 2, ncclMax) F(kMin, 3, ncclMin)           \
  F(kAvg, 4, ncclAvg)
// clang-format on
#define SHARDLAB_VALUE(name, value, theirs) name = value,

/// ncclResult_t.
enum class Result : int { SHARDLAB_NCCL_RESULTS(SHARDLAB_VALUE) };
/// cudaError_t, the values that are used here.
enum class CudaError : int { SHARDLAB_CUDA_ERRORS(SHARDLAB_VALUE) };
/// ncclDataType_t.
enum class DataType : int { SHARDLAB_NCCL_TYPES(SHARDLAB_VALUE) };
/// ncclRedOp_t, without those that a program makes.
enum class RedOp : int { SHARDLAB_NCCL_OPS(SHARDLAB_VALUE) };
#undef SHARDLAB_VALUE

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

// clang-format off
#define SHARDLAB_NCCL_FUNCTIONS(F)                                                            \
  F(Result, GetVersion, ncclGetVersion, (int* version))                                       \
  F(Result, GetUniqueId, ncclGetUniqueId, (UniqueId* id))                                     \
  F(Result, CommInitRankConfig, ncclCommInitRankConfig,                                       \
    (Comm* comm, int ranks, UniqueId id, int rank, Config* config))                           \
  F(Result, CommSplit, ncclCommSplit,                                                         \
    (Comm comm, int color, int key, Comm* made, Config* config))                              \
  F(Result, CommGetAsyncError, ncclCommGetAsyncError, (Comm comm, Result* error))             \
  F(Result, CommFinalize, ncclCommFinalize, (Comm comm))                                      \
  F(Result, CommDestroy, ncclCommDestroy, (Comm comm))                                        \
  F(Result, CommAbort, ncclCommAbort, (Comm comm))                                            \
  F(const char*, GetErrorString, ncclGetErrorString, (Result result))                         \
  F(const char*, GetLastError, ncclGetLastError, (Comm comm))                                 \
  F(Result, GroupStart, ncclGroupStart, ())                                                   \
  F(Result, GroupEnd, ncclGroupEnd, ())                                                       \
  F(Result, AllReduce, ncclAllReduce, (const void* from, void* to, std::size_t count,         \
    DataType type, RedOp op, Comm comm, Stream stream))                                       \
  F(Result, AllGather, ncclAllGather, (const void* from, void* to, std::size_t sent,          \
    DataType type, Comm comm, Stream stream))                                                 \
  F(Result, ReduceScatter, ncclReduceScatter, (const void* from, void* to,                    \
    std::size_t received, DataType type, RedOp op, Comm comm, Stream stream))                 \
  F(Result, Broadcast, ncclBroadcast, (const void* from, void* to, std::size_t count,         \
    DataType type, int root, Comm comm, Stream stream))                                       \
  F(Result, Reduce, ncclReduce, (const void* from, void* to, std::size_t count,               \
    DataType type, RedOp op, int root, Comm comm, Stream stream))                             \
  F(Result, Send, ncclSend, (const void* from, std::size_t count, DataType type, int peer,    \
    Comm comm, Stream stream))                                                                \
  F(Result, Recv, ncclRecv, (void* to, std::size_t count, DataType type, int peer,            \
    Comm comm, Stream stream))
#define SHARDLAB_CUDA_FUNCTIONS(F)                                                            \
  F(CudaError, GetDeviceCount, cudaGetDeviceCount, (int* count))                              \
  F(CudaError, RuntimeGetVersion, cudaRuntimeGetVersion, (int* version))                      \
  F(CudaError, DriverGetVersion, cudaDriverGetVersion, (int* version))                        \
  F(CudaError, SetDevice, cudaSetDevice, (int device))                                        \
  F(CudaError, StreamCreateWithFlags, cudaStreamCreateWithFlags,                              \
    (Stream* stream, unsigned int flags))                                                     \
  F(CudaError, StreamDestroy, cudaStreamDestroy, (Stream stream))                             \
  F(CudaError, StreamQuery, cudaStreamQuery, (Stream stream))                                 \
  F(CudaError, StreamSynchronize, cudaStreamSynchronize, (Stream stream))                     \
  F(CudaError, StreamWaitEvent, cudaStreamWaitEvent,                                          \
    (Stream stream, Event event, unsigned int flags))                                         \
  F(CudaError, EventCreateWithFlags, cudaEventCreateWithFlags,                                \
    (Event* event, unsigned int flags))                                                       \
  F(CudaError, EventDestroy, cudaEventDestroy, (Event event))                                 \
  F(CudaError, EventRecord, cudaEventRecord, (Event event, Stream stream))                    \
  F(CudaError, EventQuery, cudaEventQuery, (Event event))                                     \
  F(CudaError, MemGetInfo, cudaMemGetInfo, (std::size_t* free, std::size_t* total))           \
  F(CudaError, CudaGetLastError, cudaGetLastError, ())                                        \
  F(const char*, CudaGetErrorString, cudaGetErrorString, (CudaError error))
// clang-format on

/// The functions that the backend calls, of libnccl and of libcudart. All of them may be called
/// from any thread; calls on one communicator must not overlap.
struct Api {
#define SHARDLAB_SLOT(Value, name, symbol, arguments) Value(*name) arguments;
  SHARDLAB_NCCL_FUNCTIONS(SHARDLAB_SLOT)
  SHARDLAB_CUDA_FUNCTIONS(SHARDLAB_SLOT)
#undef SHARDLAB_SLOT
};

}  // namespace shardlab::nccl
