// exception_state.h - what the C++ runtime keeps per thread about exceptions in flight, which a
// switch between fibers of one thread has to exchange.
#pragma once

namespace shardlab {

/// As the Itanium C++ ABI lays it out, the same in libstdc++ and libc++abi.
struct ExceptionState {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};

/// That of the calling thread: one address for all fibers on it. Costs as much as a switch.
ExceptionState* exception_state();

}  // namespace shardlab
