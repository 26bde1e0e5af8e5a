// shardlab.h - distributed tensors on simulated ranks, for programs in C++:
//   shardlab::spmd(8, [](shardlab::RankContext&) { ... })
#pragma once

#include "sim/world/spmd.h"  // IWYU pragma: export
