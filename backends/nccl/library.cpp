// Libraries are opened at run time and every function is looked up by name, once per process and
// path.
#include "backends/nccl/library.h"

#include <dlfcn.h>
#include <cstddef>

#include <cstring>
#include <map>
#include <mutex>
#include <span>

#include "base/error.h"

namespace shardlab::nccl {

namespace {

constexpr const char* kNcclNames[] = {"libnccl.so.2", "libnccl.so"};
constexpr const char* kCudaNames[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0",
                                      "libcudart.so"};

constexpr const char* kNewEnough = "install NCCL 2.19.1 or newer";

// "2.28.9" of 22809.
std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10'000, version / 100 % 100, version % 100);
}

// One that the process has opened already has priority: that of device cuda, whose streams and
// events are passed on.
void* open_any(std::span<const char* const> names) {
  for (const char* name : names) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return library;
  }
  for (const char* name : names) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

[[noreturn]] void refuse_missing(const char* what, const std::string& why, const char* fix) {
  fail(ErrorKind::kUnsupported, Fix{fix}, "backend nccl finds no {}: {}", what, why);
}

// The functions of Api, in its order.
#define SHARDLAB_SYMBOL(Value, name, symbol, arguments) #symbol,
constexpr const char* kNcclFunctions[] = {SHARDLAB_NCCL_FUNCTIONS(SHARDLAB_SYMBOL)};
constexpr const char* kCudaFunctions[] = {SHARDLAB_CUDA_FUNCTIONS(SHARDLAB_SYMBOL)};
#undef SHARDLAB_SYMBOL

// `slot`: of the first one.
void take(void* library, std::span<const char* const> names, std::byte* slot) {
  for (const char* name : names) {
    void* const symbol = dlsym(library, name);
    if (symbol == nullptr) {
      refuse_missing("usable NCCL", fmt::format("the library has no {}", name), kNewEnough);
    }
    std::memcpy(slot, &symbol, sizeof symbol);
    slot += sizeof symbol;
  }
}

void* open_cuda() {
  void* library = open_any(kCudaNames);
  if (library == nullptr) {
    refuse_missing("CUDA runtime", "no libcudart.so can be opened",
                   "install the CUDA runtime, or add its folder to LD_LIBRARY_PATH");
  }
  return library;
}

Api load(const std::string& path) {
  Api api{};
  void* nccl = path.empty() ? open_any(kNcclNames) : dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (nccl == nullptr) {
    const char* why = path.empty() ? "no libnccl.so.2 can be opened" : dlerror();
    refuse_missing("NCCL", why == nullptr ? path : why,
                   "install libnccl2, or name the library in SHARDLAB_NCCL_LIBRARY");
  }
  auto* const slots = reinterpret_cast<std::byte*>(&api);
  take(nccl, kNcclFunctions, slots);
  take(dlsym(nccl, "cudaGetDeviceCount") != nullptr ? nccl : open_cuda(), kCudaFunctions,
       slots + offsetof(Api, GetDeviceCount));
  int version = 0;
  api.GetVersion(&version);
  check_version(version);
  return api;
}

}  // namespace

void check_version(int version) {
  if (version >= kOldestVersion) return;
  refuse_missing("usable NCCL",
                 fmt::format("version {} may hang where a communicator is aborted beside others",
                             version_text(version)),
                 kNewEnough);
}

const Api& open_library(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, Api> open;
  const std::lock_guard lock(mutex);
  const auto found = open.find(path);
  if (found != open.end()) return found->second;
  return open.emplace(path, load(path)).first->second;
}

std::string versions(const Api& api) {
  int nccl = 0, runtime = 0, driver = 0;
  api.GetVersion(&nccl);
  api.RuntimeGetVersion(&runtime);
  api.DriverGetVersion(&driver);
  const auto cuda = [](int version) {
    return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  };
  return fmt::format("NCCL {}, CUDA {}, driver for CUDA {}", version_text(nccl), cuda(runtime),
                     cuda(driver));
}

void check(const Api& api, Result result, const char* call, std::int64_t rank, Comm comm) {
  if (result == Result::kSuccess) return;
  const char* last = comm == nullptr ? nullptr : api.GetLastError(comm);
  const std::string detail = last == nullptr || *last == 0 ? "" : fmt::format(" ({})", last);
  fail(ErrorKind::kRuntime, "{} on rank {}: {}{}", call, rank, api.GetErrorString(result), detail);
}

void check(const Api& api, CudaError error, const char* call, std::int64_t rank) {
  if (error == CudaError::kSuccess) return;
  fail(ErrorKind::kRuntime, "{} on rank {}: {}", call, rank, api.CudaGetErrorString(error));
}

}  // namespace shardlab::nccl
