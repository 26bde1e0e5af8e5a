// The device's functions on the host, one element after the other: for tests of the code around a
// GPU, and of the kernels' bodies. With the double of NCCL they run behind the host, on one of its
// streams, as on a GPU; without it at once.
#include "tests/support/host_table.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>

#include "backends/cuda/bodies.h"
#include "backends/cuda/pointwise.h"
#include "backends/cuda/resample_bodies.h"
#include "backends/cuda/sort_bodies.h"

namespace shardlab::cuda {

namespace {

// Functions of the CUDA runtime, from the library that SHARDLAB_NCCL_LIBRARY names.
struct Runtime {
  int (*get_device_count)(int* count) = nullptr;
  int (*set_device)(int device) = nullptr;
  int (*stream_create)(void** stream, unsigned int flags) = nullptr;
  int (*stream_destroy)(void* stream) = nullptr;
  int (*stream_query)(void* stream) = nullptr;
  int (*stream_synchronize)(void* stream) = nullptr;
  int (*launch)(void* stream, void (*function)(void*), void* data) = nullptr;
  int (*get_last_error)() = nullptr;
};
constexpr int kNotReady = 600;

template <typename Function>
bool take(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

// Null without such a library.
const Runtime* runtime() {
  static const std::unique_ptr<const Runtime> made = []() -> std::unique_ptr<const Runtime> {
    const char* path = std::getenv("SHARDLAB_NCCL_LIBRARY");
    void* library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    Runtime found;
    if (library == nullptr || !take(library, "cudaGetDeviceCount", found.get_device_count) ||
        !take(library, "cudaSetDevice", found.set_device) ||
        !take(library, "cudaStreamCreateWithFlags", found.stream_create) ||
        !take(library, "cudaStreamDestroy", found.stream_destroy) ||
        !take(library, "cudaStreamQuery", found.stream_query) ||
        !take(library, "cudaStreamSynchronize", found.stream_synchronize) ||
        !take(library, "cudaLaunchHostFunc", found.launch) ||
        !take(library, "cudaGetLastError", found.get_last_error)) {
      return nullptr;
    }
    return std::make_unique<const Runtime>(found);
  }();
  return made.get();
}

}  // namespace

struct Context {
  void* stream = nullptr;  // null: work is done at once
  std::int64_t bad = 0;

  Failure launch(std::function<void()> work) {
    if (stream == nullptr) {
      work();
      return nullptr;
    }
    // A kernel launch reports an earlier error that was not read; so does this.
    if (runtime()->get_last_error() != 0) return "launch of a kernel: an error from before";
    auto kept = std::make_unique<std::function<void()>>(std::move(work));
    const auto run = [](void* data) {
      const std::unique_ptr<std::function<void()>> own(static_cast<std::function<void()>*>(data));
      (*own)();
    };
    if (runtime()->launch(stream, run, kept.get()) != 0) return "cudaLaunchHostFunc";
    kept.release();
    return nullptr;
  }
  void synchronize() const {
    if (stream != nullptr) runtime()->stream_synchronize(stream);
  }
};

namespace {

class Platform {
 public:
  struct Counter {
    std::int64_t* count;
    void add() const { ++*count; }
  };

  explicit Platform(Context& context) : context_(context) {}

  template <typename Body>
  Failure for_each(std::int64_t count, const Body& body) {
    return context_.launch([=] {
      for (std::int64_t i = 0; i < count; ++i) body(i);
    });
  }
  template <typename Load, typename T, typename Op>
  Failure fold(const Segments& segments, const Load& load, T* out, Op op, T first) {
    return context_.launch([=] {
      for (std::int64_t i = 0; i < segments.count; ++i) {
        T value = first;
        for (std::int64_t j = segments.at(i, 0); j < segments.at(i, 1); ++j) {
          value = op(value, load(j));
        }
        out[i] = value;
      }
    });
  }
  Counter counter() { return {&context_.bad}; }

 private:
  Context& context_;
};

Failure open(int ordinal, Context** context) {
  int devices = 1;
  if (runtime() != nullptr) runtime()->get_device_count(&devices);
  if (ordinal < 0 || ordinal >= devices) return "the host has no such device";
  auto made = std::make_unique<Context>();
  if (runtime() != nullptr &&
      (runtime()->set_device(ordinal) != 0 || runtime()->stream_create(&made->stream, 1) != 0)) {
    return "cudaStreamCreate";
  }
  *context = made.release();
  return nullptr;
}
void close(Context* context) {
  context->synchronize();
  if (context->stream != nullptr) runtime()->stream_destroy(context->stream);
  delete context;
}
const char* description(Context*) { return "the host in place of a GPU"; }
void* stream(Context* context) { return context->stream; }
Failure allocate(Context*, std::size_t bytes, void** data) {
  *data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  return nullptr;
}
Failure release(Context* context, void* data) {
  context->synchronize();
  std::free(data);
  return nullptr;
}
Failure copy_in(Context* context, void* to, const void* from, std::size_t bytes) {
  context->synchronize();
  if (bytes > 0) std::memcpy(to, from, bytes);
  return nullptr;
}
constexpr auto copy_out = copy_in;
Failure idle(Context* context, bool* over) {
  const int state = context->stream == nullptr ? 0 : runtime()->stream_query(context->stream);
  *over = state == 0;
  if (state == kNotReady) runtime()->get_last_error();
  return state == 0 || state == kNotReady ? nullptr : "cudaStreamQuery";
}

Failure run_pointwise(Platform& platform, const PointwiseCall& call) {
  return run_functions<1, kMaxOperands>(platform, call);
}
constexpr auto multiply = run_product<Platform>;

template <typename Call, Failure (*run)(Platform&, const Call&)>
Failure launched(Context* context, const Call& call) {
  Platform platform(*context);
  return run(platform, call);
}

Failure bad_indices(Context* context, std::int64_t* count) {
  context->synchronize();
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
