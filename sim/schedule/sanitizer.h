// sanitizer.h - reports of fibers to ASan and TSan; nothing in other builds. A fiber switches
// stacks without their knowledge. ASan keeps the bounds of the running stack and a fake stack for
// locals that may be used after their function returned; TSan keeps a shadow state per thread, and
// takes a fiber for one. Schedulers make these calls around every switch, on the OS thread that
// switches; in other builds all of them compile to nothing.
#pragma once

#include <cstddef>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>

#include <thread>

extern "C" {
// Functions of the runtime of TSan, which no header declares. They nest, and count for the fiber
// that runs.
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace shardlab {

/// Usable memory of one stack; it grows down from bottom + size_bytes.
struct FiberStack {
  std::byte* bottom = nullptr;
  std::size_t size_bytes = 0;
  /// The begin of the first frame: one past the last byte.
  std::byte* top() const { return bottom + size_bytes; }
};

}  // namespace shardlab

namespace shardlab::sanitizer {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/// True when this build has a sanitizer: limits of time and stack depend on it, results never do.
inline constexpr bool kActive = true;
#else
inline constexpr bool kActive = false;
#endif

/// A sanitizer's state of one suspended fiber.
struct FiberState {
  void* fake_stack = nullptr;  ///< ASan
  void* fiber = nullptr;       ///< TSan
};

#ifdef __SANITIZE_ADDRESS__

/// Instrumented frames are several times larger.
inline constexpr std::size_t kStackFactor = 4;
/// On the stack that is left, `from`, right before the switch to `to`.
inline void before_switch(FiberState& from, const FiberStack& to) {
  __sanitizer_start_switch_fiber(&from.fake_stack, to.bottom, to.size_bytes);
}
/// The last switch of a fiber: its fake stack is freed.
inline void before_last_switch(const FiberStack& to) {
  __sanitizer_start_switch_fiber(nullptr, to.bottom, to.size_bytes);
}
/// On the new stack; fills in the bounds of the stack that was left.
inline void after_switch(FiberState& to, FiberStack& left) {
  const void* bottom = nullptr;
  __sanitizer_finish_switch_fiber(to.fake_stack, &bottom, &left.size_bytes);
  left.bottom = static_cast<std::byte*>(const_cast<void*>(bottom));
}
/// A stack is used again: frames that were left without returning poisoned it.
inline void unpoison(const FiberStack& stack) {
  __asan_unpoison_memory_region(stack.bottom, stack.size_bytes);
}

#else

// Without ASan stacks have the requested size, and switches are not reported.
inline constexpr std::size_t kStackFactor = 1;
inline void before_switch(FiberState&, const FiberStack&) {}
inline void before_last_switch(const FiberStack&) {}
inline void after_switch(FiberState&, FiberStack&) {}
inline void unpoison(const FiberStack&) {}

#endif

#ifdef __SANITIZE_THREAD__

/// Before the first fiber. In a process that never had a second thread the C++ library counts
/// references without atomics, which TSan would call a race of fibers.
inline void leave_single_thread() {
  static const bool left = [] {
    std::thread([] {}).join();
    return true;
  }();
  static_cast<void>(left);
}
/// A state for a new fiber; destroy_fiber() gives it back, once the fiber will not run again.
inline void create_fiber(FiberState& state) { state.fiber = __tsan_create_fiber(0); }
/// The state of the OS thread itself, which schedulers switch back to.
inline void adopt_thread(FiberState& state) { state.fiber = __tsan_get_current_fiber(); }
/// Not on the fiber itself, and not for an adopted thread, whose state is TSan's own.
inline void destroy_fiber(FiberState& state) { __tsan_destroy_fiber(state.fiber); }
/// Without synchronisation: with it, every switch would order the ranks and hide their races.
inline void switch_fiber(FiberState& to) {
  __tsan_switch_to_fiber(to.fiber, __tsan_switch_to_fiber_no_sync);
}
/// Earlier actions of this fiber happen before those of another one after its acquire() of the
/// address.
inline void release(void* address) { __tsan_release(address); }
inline void acquire(void* address) { __tsan_acquire(address); }

/// Scheduler state is shared by fibers of one OS thread without locks, which TSan, not seeing the
/// order of switches, would call a race: its accesses are not checked.
class Section {
 public:
  Section() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Section() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
  Section& operator=(Section&&) = delete;
};

#else

// Without TSan there are no states of fibers, and a Section costs nothing.
inline void leave_single_thread() {}
inline void create_fiber(FiberState&) {}
inline void adopt_thread(FiberState&) {}
inline void destroy_fiber(FiberState&) {}
inline void switch_fiber(FiberState&) {}
inline void release(void*) {}
inline void acquire(void*) {}
class Section {
 public:
  Section() {}
  ~Section() {}
};

#endif

}  // namespace shardlab::sanitizer
