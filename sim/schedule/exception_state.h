// exception_state.h - the C++ runtime's state per thread about exceptions in flight, which a switch
// between fibers of one thread has to exchange.
#pragma once

namespace shardlab {

/// The layout of the Itanium C++ ABI, the same in libstdc++ and libc++abi.
struct ExceptionState {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};

/// The calling thread's: one address for all fibers on it. The call takes as long as a
/// switch.
ExceptionState* exception_state();

}  // namespace shardlab
