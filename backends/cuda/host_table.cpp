// The device's functions on the host, one element after the other: for tests of what surrounds a
// GPU, and of the kernels' bodies.
#include "backends/cuda/host_table.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "backends/cuda/bodies.h"
#include "backends/cuda/pointwise.h"

namespace shardlab::cuda {

struct Context {
  std::vector<std::vector<std::byte>> scratch;
  std::int64_t bad = 0;
};

namespace {

class HostPlatform {
 public:
  struct Counter {
    std::int64_t* count;
    void add() const { ++*count; }
  };

  explicit HostPlatform(Context* context) : context_(*context) {}

  template <typename Body>
  Failure for_each(std::int64_t count, const Body& body) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
    return nullptr;
  }
  template <typename Load, typename T, typename Op>
  Failure fold(std::int64_t rows, std::int64_t size, const Load& load, T* out, Op op, T first) {
    for (std::int64_t row = 0; row < rows; ++row) {
      T value = first;
      for (std::int64_t j = 0; j < size; ++j) value = op(value, load(row * size + j));
      out[row] = value;
    }
    return nullptr;
  }
  Failure scratch(std::size_t bytes, void** data) {
    context_.scratch.assign(1, std::vector<std::byte>(bytes));
    *data = context_.scratch.back().data();
    return nullptr;
  }
  Counter counter() { return {&context_.bad}; }

 private:
  Context& context_;
};

Failure open(int ordinal, Context** context) {
  if (ordinal != 0) return "the host is one device";
  *context = new Context;
  return nullptr;
}
void close(Context* context) { delete context; }
const char* description(Context*) { return "the host in place of a GPU"; }
void* stream(Context*) { return nullptr; }
Failure allocate(Context*, std::size_t bytes, void** data) {
  *data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  return nullptr;
}
Failure release(Context*, void* data) {
  std::free(data);
  return nullptr;
}
Failure copy_in(Context*, void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return nullptr;
}
constexpr auto copy_out = copy_in;
Failure synchronize(Context*) { return nullptr; }

Failure pointwise(Context* context, const PointwiseCall& call) {
  HostPlatform platform(context);
  return run_functions<1, kMaxOperands>(platform, call);
}
Failure move(Context* context, const MoveCall& call) {
  HostPlatform platform(context);
  return run_move(platform, call, item_bytes(call.out.dtype));
}
Failure fold(Context* context, const FoldCall& call) {
  HostPlatform platform(context);
  return run_fold(platform, call);
}
Failure scan(Context* context, const ScanCall& call) {
  HostPlatform platform(context);
  return run_scan(platform, call);
}
Failure lookup(Context* context, const LookupCall& call) {
  HostPlatform platform(context);
  return run_lookup(platform, call, item_bytes(call.out.dtype));
}
Failure scatter(Context* context, const ScatterCall& call) {
  HostPlatform platform(context);
  return run_scatter(platform, call);
}
Failure draw(Context* context, const DrawCall& call) {
  return HostPlatform(context).for_each(call.shape.count, DrawBody{call});
}
Failure product(Context* context, const ProductCall& call) {
  HostPlatform platform(context);
  const std::int64_t count = call.batch * call.rows * call.columns;
  switch (call.dtype) {
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
      return platform.for_each(count, ProductBody<float, float>{call});
    case DType::kF64:
      return platform.for_each(count, ProductBody<double, double>{call});
    default:
      return platform.for_each(count, ProductBody<std::int64_t, std::int64_t>{call});
  }
}
Failure combine(Context* context, const CombineCall& call) {
  HostPlatform platform(context);
  return run_combine(platform, call);
}
Failure bad_indices(Context* context, std::int64_t* count) {
  *count = context->bad;
  context->bad = 0;
  return nullptr;
}

}  // namespace

const Table& host_table() {
  static constexpr Table table = {
#include "backends/cuda/table_functions.h"
  };
  return table;
}

}  // namespace shardlab::cuda
