// jump.h - the switch from one fiber to another.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

namespace shardlab {

/// Does what Boost's make_fcontext does: a fiber on the stack that ends at `top`, for jump() to
/// enter. `enter` never returns.
boost::context::detail::fcontext_t make_fiber(void* top, std::size_t size_bytes,
                                              void (*enter)(boost::context::detail::transfer_t));

/// Boost's jump_fcontext, four times faster in a rendezvous: Boost's pops its return address by
/// hand, so that after an ordinary `call` of it the processor, which predicts returns from the
/// calls it saw, is off by one and mispredicts every return of the next fiber. Ranks run one
/// program: the next one is mostly at the place where the other one left, and with balanced calls
/// and returns the predictions are right. Rounding modes and exception masks belong to the OS
/// thread: no rank changes them.
boost::context::detail::transfer_t jump(boost::context::detail::fcontext_t machine, void* data);

}  // namespace shardlab
