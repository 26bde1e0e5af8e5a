// shardlab.h - distributed tensors on simulated ranks, for programs in C++:
//   shardlab::spmd(8, [](shardlab::RankContext&) { ... })
#pragma once

#include "base/version.h"    // IWYU pragma: export
#include "sim/world/spmd.h"  // IWYU pragma: export
