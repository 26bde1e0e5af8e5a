// checkpoint.h - checkpoints in programs: save(tensors, folder), load(folder, name, mesh,
// placements), and what a checkpoint holds.
#pragma once

#include "shardlab/shardlab.h"            // IWYU pragma: export
#include "sim/checkpoint/rank_tensors.h"  // IWYU pragma: export
