// platform.cuh - the GPU as the kernels see it: loops and folds on one stream. Every call is
// checked; a failure is kept as text in the context.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cstdio>
#include <cub/device/device_segmented_reduce.cuh>
#include <limits>

#include "backends/cuda/table.h"

namespace shardlab::cuda {

struct Context {
  int ordinal = 0;
  cudaStream_t stream = nullptr;
  cublasHandle_t blas = nullptr;
  void* scratch = nullptr;  ///< kept between calls; the stream orders their use
  std::size_t scratch_bytes = 0;
  unsigned long long* bad_indices = nullptr;
  char description[256] = {};
  char failure[512] = {};

  Failure fail(const char* call, const char* why) {
    std::snprintf(failure, sizeof failure, "%s: %s", call, why);
    return failure;
  }
  Failure check(cudaError_t error, const char* call) {
    return error == cudaSuccess ? nullptr : fail(call, cudaGetErrorString(error));
  }
  Failure check(cublasStatus_t status, const char* call) {
    return status == CUBLAS_STATUS_SUCCESS ? nullptr : fail(call, cublasGetStatusString(status));
  }
  /// Room that lasts until the next call.
  Failure room(std::size_t bytes, void** data) {
    if (bytes > scratch_bytes) {
      // Freeing waits for the stream: work that uses the old room is over then.
      if (const Failure failed = check(cudaFree(scratch), "cudaFree")) return failed;
      scratch = nullptr;
      scratch_bytes = 0;
      if (const Failure failed = check(cudaMalloc(&scratch, bytes), "cudaMalloc")) {
        return failed;
      }
      scratch_bytes = bytes;
    }
    *data = scratch;
    return nullptr;
  }
};

template <typename Body>
__global__ void run_body(Body body, std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < count; i += step) body(i);
}

template <typename Load>
struct Loaded {
  Load load;
  using Value = decltype(load(std::int64_t{}));
  __host__ __device__ Value operator()(std::int64_t i) const { return load(i); }
};

template <typename Segments>
struct SegmentEdge {
  Segments segments;
  std::int64_t edge;
  __host__ __device__ std::int64_t operator()(std::int64_t i) const { return segments.at(i, edge); }
};

class GpuPlatform {
 public:
  struct Counter {
    unsigned long long* count;
    // Only kernels count; the host form lets bodies compile for both.
    __host__ __device__ void add() const {
#ifdef __CUDA_ARCH__
      atomicAdd(count, 1ull);
#endif
    }
  };

  explicit GpuPlatform(Context& context) : context_(context) {}

  template <typename Body>
  Failure for_each(std::int64_t count, const Body& body) {
    if (count <= 0) return nullptr;
    constexpr int kThreads = 256;
    constexpr std::int64_t kMostBlocks = 1 << 20;
    const std::int64_t blocks = (count + kThreads - 1) / kThreads;
    const auto grid = static_cast<unsigned int>(blocks < kMostBlocks ? blocks : kMostBlocks);
    run_body<<<grid, kThreads, 0, context_.stream>>>(body, count);
    return context_.check(cudaGetLastError(), "launch of a kernel");
  }

  // One block for each segment.
  template <typename Segments, typename Load, typename T, typename Op>
  Failure fold(const Segments& segments, const Load& load, T* out, Op op, T first) {
    if (segments.count <= 0) return nullptr;
    if (segments.count > std::numeric_limits<int>::max()) return "more than 2^31 rows are reduced";
    const thrust::counting_iterator<std::int64_t> numbers(0);
    const auto values = thrust::make_transform_iterator(numbers, Loaded<Load>{load});
    const auto begins =
        thrust::make_transform_iterator(numbers, SegmentEdge<Segments>{segments, 0});
    const auto ends = thrust::make_transform_iterator(numbers, SegmentEdge<Segments>{segments, 1});
    const auto count = static_cast<int>(segments.count);
    std::size_t bytes = 0;
    const auto reduce = [&](void* room) {
      return context_.check(
          cub::DeviceSegmentedReduce::Reduce(room, bytes, values, out, count, begins, ends, op,
                                             first, context_.stream),
          "cub::DeviceSegmentedReduce");
    };
    void* room = nullptr;
    Failure failure = reduce(nullptr);
    if (failure == nullptr) failure = context_.room(bytes == 0 ? 1 : bytes, &room);
    return failure != nullptr ? failure : reduce(room);
  }

  Counter counter() { return {context_.bad_indices}; }
  Context& context() { return context_; }

 private:
  Context& context_;
};

// One translation unit each: they take long to compile.
Failure run_pointwise_one(GpuPlatform& platform, const PointwiseCall& call);
Failure run_pointwise_two(GpuPlatform& platform, const PointwiseCall& call);
Failure run_pointwise_more(GpuPlatform& platform, const PointwiseCall& call);

}  // namespace shardlab::cuda
