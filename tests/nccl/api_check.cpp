// Compares api.h with the libraries' own headers; built where these exist. Defines nothing.
#include <cuda_runtime.h>
#include <nccl.h>

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

template <typename Ours, typename Value>
constexpr bool same(Ours ours, Value theirs) {
  return static_cast<long long>(ours) == static_cast<long long>(theirs) &&
         sizeof(Ours) == sizeof(Value);
}

}  // namespace

// The cast chooses among overloads, and takes no other type.
#define SHARDLAB_SAME(Value, name, symbol, arguments) \
  using Check##name = decltype(static_cast<Translated<decltype(Api::name)>::Type>(&symbol));
SHARDLAB_NCCL_FUNCTIONS(SHARDLAB_SAME)
SHARDLAB_CUDA_FUNCTIONS(SHARDLAB_SAME)
#undef SHARDLAB_SAME

#define SHARDLAB_SAME(name, value, theirs) static_assert(same(Ours::name, theirs));
namespace results {
using Ours = Result;
SHARDLAB_NCCL_RESULTS(SHARDLAB_SAME)
}  // namespace results
namespace errors {
using Ours = CudaError;
SHARDLAB_CUDA_ERRORS(SHARDLAB_SAME)
}  // namespace errors
namespace types {
using Ours = DataType;
SHARDLAB_NCCL_TYPES(SHARDLAB_SAME)
}  // namespace types
namespace ops {
using Ours = RedOp;
SHARDLAB_NCCL_OPS(SHARDLAB_SAME)
}  // namespace ops
#undef SHARDLAB_SAME

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
