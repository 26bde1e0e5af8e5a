// class_world.h - a world of shapes only: a function runs once for each class of ranks that behave
// the same, so that a million ranks cost as much as a handful. Private to the files that run
// worlds.
#pragma once

#include "sim/world/world.h"

namespace shardlab {

/// World::run on a backend that runs one rank of each class; `options` have a layout and a device
/// without data. Every failure in the result is that of a class.
WorldResult run_classes(const WorldOptions& options, const RankBody& body);

}  // namespace shardlab
