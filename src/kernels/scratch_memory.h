// scratch_memory.h - working memory of one kernel call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace shardlab {

/// Uninitialised memory, and how much of it there is.
struct ScratchBytes {
  void* memory = nullptr;
  std::size_t size = 0;
};
/// At least so many bytes, aligned as by operator new. From any thread.
///   fails  std::bad_alloc
ScratchBytes take_scratch(std::size_t bytes);
/// Frees the memory of take_scratch; some large memory is kept for later calls.
void give_scratch(const ScratchBytes& given) noexcept;

struct ScratchDeleter {
  std::size_t size = 0;
  void operator()(void* memory) const noexcept { give_scratch({memory, size}); }
};
template <typename T>
using Scratch = std::unique_ptr<T[], ScratchDeleter>;

/// Uninitialised elements of a compute type.
template <typename T>
Scratch<T> scratch(std::int64_t count) {
  static_assert(std::is_trivially_destructible_v<T> && std::is_trivially_copyable_v<T>);
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  const ScratchBytes taken = take_scratch(static_cast<std::size_t>(count) * sizeof(T));
  return Scratch<T>(static_cast<T*>(taken.memory), ScratchDeleter{taken.size});
}

}  // namespace shardlab
