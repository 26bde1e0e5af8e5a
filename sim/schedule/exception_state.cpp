// The function is part of the ABI and every runtime has it; libc++abi (clang's on macOS, too)
// declares it in no header.
#include "sim/schedule/exception_state.h"

#include <cxxabi.h>

#ifdef _LIBCPPABI_VERSION
extern "C" void* __cxa_get_globals();
#else
using abi::__cxa_get_globals;
#endif

namespace shardlab {

ExceptionState* exception_state() { return reinterpret_cast<ExceptionState*>(__cxa_get_globals()); }

}  // namespace shardlab
