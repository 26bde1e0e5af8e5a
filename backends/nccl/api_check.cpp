// Compares api.h with the libraries' own headers; built where these exist. Defines nothing.
#include <cuda_runtime.h>
#include <nccl.h>

#include <cstddef>
#include <type_traits>

#include "backends/nccl/api.h"

namespace shardlab::nccl {

namespace {

// The library's type for a type of ours.
template <typename T>
struct Theirs {
  using Type = T;
};
template <>
struct Theirs<Result> {
  using Type = ncclResult_t;
};
template <>
struct Theirs<CudaError> {
  using Type = cudaError_t;
};
template <>
struct Theirs<DataType> {
  using Type = ncclDataType_t;
};
template <>
struct Theirs<RedOp> {
  using Type = ncclRedOp_t;
};
template <>
struct Theirs<UniqueId> {
  using Type = ncclUniqueId;
};
template <>
struct Theirs<CommHandle*> {
  using Type = ncclComm_t;
};
template <>
struct Theirs<StreamHandle*> {
  using Type = cudaStream_t;
};
template <>
struct Theirs<EventHandle*> {
  using Type = cudaEvent_t;
};
template <>
struct Theirs<Config> {
  using Type = ncclConfig_t;
};
template <typename T>
struct Theirs<T*> {
  using Type = typename Theirs<T>::Type*;
};

template <typename Function>
struct Translated;
template <typename Value, typename... Args>
struct Translated<Value (*)(Args...)> {
  using Type = typename Theirs<Value>::Type (*)(typename Theirs<Args>::Type...);
};

template <typename Ours, typename Function>
constexpr bool same_call = std::is_same_v<typename Translated<Ours>::Type, Function>;

template <typename Ours, typename Value>
constexpr bool same(Ours ours, Value theirs) {
  return static_cast<long long>(ours) == static_cast<long long>(theirs) &&
         sizeof(Ours) == sizeof(Value);
}

}  // namespace

#define SHARDLAB_SAME_NCCL(name) \
  static_assert(same_call<decltype(Api::name), decltype(&nccl##name)>)
#define SHARDLAB_SAME_CUDA(name) \
  static_assert(same_call<decltype(Api::name), decltype(&cuda##name)>)

SHARDLAB_SAME_NCCL(GetVersion);
SHARDLAB_SAME_NCCL(GetUniqueId);
SHARDLAB_SAME_NCCL(CommInitRankConfig);
SHARDLAB_SAME_NCCL(CommSplit);
SHARDLAB_SAME_NCCL(CommGetAsyncError);
SHARDLAB_SAME_NCCL(CommFinalize);
SHARDLAB_SAME_NCCL(CommDestroy);
SHARDLAB_SAME_NCCL(CommAbort);
SHARDLAB_SAME_NCCL(GetErrorString);
SHARDLAB_SAME_NCCL(GetLastError);
SHARDLAB_SAME_NCCL(GroupStart);
SHARDLAB_SAME_NCCL(GroupEnd);
SHARDLAB_SAME_NCCL(AllReduce);
SHARDLAB_SAME_NCCL(AllGather);
SHARDLAB_SAME_NCCL(ReduceScatter);
SHARDLAB_SAME_NCCL(Broadcast);
SHARDLAB_SAME_NCCL(Reduce);
SHARDLAB_SAME_NCCL(Send);
SHARDLAB_SAME_NCCL(Recv);
SHARDLAB_SAME_CUDA(GetDeviceCount);
SHARDLAB_SAME_CUDA(RuntimeGetVersion);
SHARDLAB_SAME_CUDA(DriverGetVersion);
SHARDLAB_SAME_CUDA(SetDevice);
SHARDLAB_SAME_CUDA(StreamCreateWithFlags);
SHARDLAB_SAME_CUDA(StreamDestroy);
SHARDLAB_SAME_CUDA(StreamQuery);
SHARDLAB_SAME_CUDA(StreamSynchronize);
SHARDLAB_SAME_CUDA(EventDestroy);
SHARDLAB_SAME_CUDA(EventQuery);
SHARDLAB_SAME_CUDA(MemGetInfo);
static_assert(same_call<decltype(Api::CudaGetErrorString), decltype(&cudaGetErrorString)>);
static_assert(same_call<decltype(Api::CudaGetLastError), decltype(&cudaGetLastError)>);
// These have C++ overloads or default arguments in addition to the C function.
static_assert(std::is_convertible_v<decltype(Api::StreamWaitEvent),
                                    CudaError (*)(Stream, Event, unsigned int)>);
constexpr cudaError_t (*kWaitEvent)(cudaStream_t, cudaEvent_t, unsigned int) = cudaStreamWaitEvent;
constexpr cudaError_t (*kRecord)(cudaEvent_t, cudaStream_t) = cudaEventRecord;
constexpr cudaError_t (*kCreateEvent)(cudaEvent_t*, unsigned int) = cudaEventCreateWithFlags;
static_assert(same_call<decltype(Api::StreamWaitEvent), decltype(+kWaitEvent)>);
static_assert(same_call<decltype(Api::EventRecord), decltype(+kRecord)>);
static_assert(same_call<decltype(Api::EventCreateWithFlags), decltype(+kCreateEvent)>);

static_assert(same(Result::kSuccess, ncclSuccess));
static_assert(same(Result::kUnhandledCudaError, ncclUnhandledCudaError));
static_assert(same(Result::kSystemError, ncclSystemError));
static_assert(same(Result::kInternalError, ncclInternalError));
static_assert(same(Result::kInvalidArgument, ncclInvalidArgument));
static_assert(same(Result::kInvalidUsage, ncclInvalidUsage));
static_assert(same(Result::kRemoteError, ncclRemoteError));
static_assert(same(Result::kInProgress, ncclInProgress));
static_assert(same(CudaError::kSuccess, cudaSuccess));
static_assert(same(CudaError::kInvalidValue, cudaErrorInvalidValue));
static_assert(same(CudaError::kNoDevice, cudaErrorNoDevice));
static_assert(same(CudaError::kNotReady, cudaErrorNotReady));
static_assert(same(CudaError::kIllegalAddress, cudaErrorIllegalAddress));
static_assert(same(DataType::kInt8, ncclInt8));
static_assert(same(DataType::kUint8, ncclUint8));
static_assert(same(DataType::kInt32, ncclInt32));
static_assert(same(DataType::kUint32, ncclUint32));
static_assert(same(DataType::kInt64, ncclInt64));
static_assert(same(DataType::kUint64, ncclUint64));
static_assert(same(DataType::kFloat16, ncclFloat16));
static_assert(same(DataType::kFloat32, ncclFloat32));
static_assert(same(DataType::kFloat64, ncclFloat64));
static_assert(same(DataType::kBfloat16, ncclBfloat16));
static_assert(same(RedOp::kSum, ncclSum));
static_assert(same(RedOp::kProd, ncclProd));
static_assert(same(RedOp::kMax, ncclMax));
static_assert(same(RedOp::kMin, ncclMin));
static_assert(same(RedOp::kAvg, ncclAvg));

static_assert(NCCL_VERSION_CODE >= kOldestVersion);
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId) && kUniqueIdBytes == NCCL_UNIQUE_ID_BYTES);
// Our Config is a prefix of NCCL's; its field `size` gives its end.
static_assert(sizeof(Config) <= sizeof(ncclConfig_t));
static_assert(offsetof(Config, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(Config, cga_cluster_size) == offsetof(ncclConfig_t, cgaClusterSize));
static_assert(offsetof(Config, min_ctas) == offsetof(ncclConfig_t, minCTAs));
static_assert(offsetof(Config, max_ctas) == offsetof(ncclConfig_t, maxCTAs));
static_assert(offsetof(Config, net_name) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(Config, split_share) == offsetof(ncclConfig_t, splitShare));
static_assert(ncclConfig_t(NCCL_CONFIG_INITIALIZER).magic == Config{}.magic);
static_assert(NCCL_CONFIG_UNDEF_INT == Config{}.blocking);
static_assert(NCCL_SPLIT_NOCOLOR == kNoColor);
static_assert(cudaStreamNonBlocking == kStreamNonBlocking);
static_assert(cudaEventDisableTiming == kEventDisableTiming);

}  // namespace shardlab::nccl
