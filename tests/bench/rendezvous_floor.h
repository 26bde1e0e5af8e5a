// rendezvous_floor.h - the least that a rendezvous of many fibers on one OS thread takes.
#pragma once

#include <cstdint>

namespace shardlab {

/// The way in which the loop leaves a fiber.
enum class Switch : std::uint8_t {
  kPlain,     ///< boost::context::detail::jump_fcontext, called
  kBalanced,  ///< jump() of sim/schedule/jump.h
};

/// Seconds per meeting of `ranks` fibers, the least of several rounds: an atomic count, one queue,
/// the exception state of each fiber saved and restored, and nothing else.
double floor_of_rendezvous(std::int64_t ranks, Switch how);

}  // namespace shardlab
