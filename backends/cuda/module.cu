// The module: CUDA behind the table of functions. A context is used by one thread at a time, any
// thread; functions that launch work make its device current first.
#include <new>

#include "backends/cuda/bodies.h"
#include "backends/cuda/platform.cuh"
#include "backends/cuda/resample_bodies.h"
#include "backends/cuda/sort_bodies.h"

namespace shardlab::cuda {

namespace {

// The failure before there was a context.
char open_failure[512];

Failure keep(Context* context, Failure failure) {
  std::snprintf(open_failure, sizeof open_failure, "%s", failure);
  delete context;
  return open_failure;
}

Failure prepare(Context& context) {
  if (const Failure failed = context.check(cudaSetDevice(context.ordinal), "cudaSetDevice")) {
    return failed;
  }
  if (const Failure failed = context.check(
          cudaStreamCreateWithFlags(&context.stream, cudaStreamNonBlocking), "cudaStreamCreate")) {
    return failed;
  }
  if (const Failure failed = context.check(cublasCreate(&context.blas), "cublasCreate")) {
    return failed;
  }
  if (const Failure failed =
          context.check(cublasSetStream(context.blas, context.stream), "cublasSetStream")) {
    return failed;
  }
  // f32 products in f32: no tensor cores with fewer bits.
  if (const Failure failed = context.check(cublasSetMathMode(context.blas, CUBLAS_DEFAULT_MATH),
                                           "cublasSetMathMode")) {
    return failed;
  }
  if (const Failure failed = context.check(
          cudaMalloc(&context.bad_indices, sizeof *context.bad_indices), "cudaMalloc")) {
    return failed;
  }
  return context.check(
      cudaMemsetAsync(context.bad_indices, 0, sizeof *context.bad_indices, context.stream),
      "cudaMemset");
}

Failure open(int ordinal, Context** made) {
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  auto* context = new (std::nothrow) Context;
  if (context == nullptr) return "no memory";
  if (counted != cudaSuccess) return keep(context, context->check(counted, "cudaGetDeviceCount"));
  if (ordinal < 0 || ordinal >= count) {
    std::snprintf(open_failure, sizeof open_failure, "this host has %d GPUs", count);
    delete context;
    return open_failure;
  }
  context->ordinal = ordinal;
  if (const Failure failed = prepare(*context)) return keep(context, failed);
  cudaDeviceProp properties{};
  int runtime = 0;
  if (cudaGetDeviceProperties(&properties, ordinal) == cudaSuccess &&
      cudaRuntimeGetVersion(&runtime) == cudaSuccess) {
    std::snprintf(context->description, sizeof context->description,
                  "%s, %d multiprocessors, CUDA %d.%d", properties.name,
                  properties.multiProcessorCount, runtime / 1000, runtime % 1000 / 10);
  }
  *made = context;
  return nullptr;
}

// At the end of the program, when errors can no longer be reported: failures are ignored.
void close(Context* context) {
  if (context == nullptr) return;
  cudaSetDevice(context->ordinal);
  cudaStreamSynchronize(context->stream);
  cudaFree(context->bad_indices);
  cudaFree(context->scratch);
  cublasDestroy(context->blas);
  cudaStreamDestroy(context->stream);
  delete context;
}

const char* description(Context* context) { return context->description; }
void* stream(Context* context) { return context->stream; }

Failure here(Context* context) {
  return context->check(cudaSetDevice(context->ordinal), "cudaSetDevice");
}

Failure allocate(Context* context, std::size_t bytes, void** data) {
  if (const Failure failed = here(context)) return failed;
  *data = nullptr;
  const cudaError_t error = cudaMalloc(data, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // no memory is an answer, not a state of the device
    *data = nullptr;
    return nullptr;
  }
  return context->check(error, "cudaMalloc");
}

Failure release(Context* context, void* data) {
  if (const Failure failed = here(context)) return failed;
  return context->check(cudaFree(data), "cudaFree");
}

Failure copy_in(Context* context, void* to, const void* host, std::size_t bytes) {
  if (const Failure failed = here(context)) return failed;
  if (const Failure failed =
          context->check(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, context->stream),
                         "cudaMemcpy to the device")) {
    return failed;
  }
  // The host's memory is the caller's again when this returns.
  return context->check(cudaStreamSynchronize(context->stream), "cudaStreamSynchronize");
}

Failure copy_out(Context* context, void* host, const void* from, std::size_t bytes) {
  if (const Failure failed = here(context)) return failed;
  if (const Failure failed = context->check(
          cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, context->stream),
          "cudaMemcpy to the host")) {
    return failed;
  }
  return context->check(cudaStreamSynchronize(context->stream), "cudaStreamSynchronize");
}

Failure idle(Context* context, bool* over) {
  if (const Failure failed = here(context)) return failed;
  const cudaError_t state = cudaStreamQuery(context->stream);
  *over = state == cudaSuccess;
  if (state != cudaErrorNotReady) return context->check(state, "cudaStreamQuery");
  cudaGetLastError();  // kept otherwise, and taken for that of the next launch
  return nullptr;
}

using Platform = GpuPlatform;

Failure run_pointwise(Platform& platform, const PointwiseCall& call) {
  if (call.operands == 1) return run_pointwise_one(platform, call);
  if (call.operands == 2) return run_pointwise_two(platform, call);
  return run_pointwise_more(platform, call);
}

cudaDataType_t cuda_type(DType dtype) {
  return dtype == DType::kF16    ? CUDA_R_16F
         : dtype == DType::kBF16 ? CUDA_R_16BF
         : dtype == DType::kF32  ? CUDA_R_32F
                                 : CUDA_R_64F;
}

// A matrix of ours as cuBLAS, which is column-major, reads it: as its transpose.
struct BlasMatrix {
  cublasOperation_t operation;
  long long leading;
};
BlasMatrix blas_matrix(const Matrix& matrix, std::int64_t rows, std::int64_t columns) {
  // Our dense rows are its dense columns: no transpose. A stride of a dim of size 1 has no meaning.
  if (matrix.column_stride == 1 && matrix.row_stride >= columns) {
    return {CUBLAS_OP_N, matrix.row_stride > 0 ? matrix.row_stride : 1};
  }
  return {CUBLAS_OP_T, matrix.column_stride >= rows ? matrix.column_stride : rows};
}

// Row-major out = a b is column-major out^T = b^T a^T.
Failure blas_product(Context& context, const ProductCall& call) {
  const BlasMatrix a = blas_matrix(call.a, call.rows, call.inner);
  const BlasMatrix b = blas_matrix(call.b, call.inner, call.columns);
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  for (const std::int64_t size : {call.batch, call.rows, call.inner, call.columns}) {
    if (size > kMost) return "a matrix product of more than 2^31 rows or columns";
  }
  if (a.leading > kMost || b.leading > kMost) return "a matrix whose rows lie 2^31 apart";
  const bool wide = call.dtype == DType::kF64;
  const float one = 1, zero = 0;
  const double wide_one = 1, wide_zero = 0;
  return context.check(
      cublasGemmStridedBatchedEx(
          context.blas, b.operation, a.operation, static_cast<int>(call.columns),
          static_cast<int>(call.rows), static_cast<int>(call.inner),
          wide ? static_cast<const void*>(&wide_one) : &one, call.b.data, cuda_type(call.dtype),
          static_cast<int>(b.leading), call.b.batch_stride, call.a.data, cuda_type(call.dtype),
          static_cast<int>(a.leading), call.a.batch_stride,
          wide ? static_cast<const void*>(&wide_zero) : &zero, call.out, cuda_type(call.compute),
          static_cast<int>(call.columns), call.rows * call.columns, static_cast<int>(call.batch),
          wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
      "cublasGemmStridedBatchedEx");
}

Failure multiply(Platform& platform, const ProductCall& call) {
  if (call.compute == DType::kI64) return run_product(platform, call);
  return blas_product(platform.context(), call);
}

template <typename Call, Failure (*run)(Platform&, const Call&)>
Failure launched(Context* context, const Call& call) {
  if (const Failure failed = here(context)) return failed;
  Platform platform(*context);
  return run(platform, call);
}

Failure bad_indices(Context* context, std::int64_t* count) {
  unsigned long long bad = 0;
  if (const Failure failed = copy_out(context, &bad, context->bad_indices, sizeof bad)) {
    return failed;
  }
  *count = static_cast<std::int64_t>(bad);
  if (bad == 0) return nullptr;
  return context->check(cudaMemsetAsync(context->bad_indices, 0, sizeof bad, context->stream),
                        "cudaMemset");
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const Table* shardlab_cuda_table() {
  static const Table table = {
#include "backends/cuda/table_functions.h"
  };
  return &table;
}

}  // namespace shardlab::cuda
