// claims.h - claims on tensors (sim/types/claim.h), against the values that ranks hold.
// Pure. Private to the files that verify.
#pragma once

#include <string>
#include <vector>

#include "sim/types/claim.h"
#include "sim/verify/labels/label.h"

namespace shardlab {

/// The labels that a claim allows for tensors of so many dims: one, or one for each thing that V
/// may be, replicas first; terms of an average beside those of a sum for a gradient, since a
/// program may divide later. `held` by index of the claim's mesh.
std::vector<Label> labels_of(const SpmdClaim& claim, const std::vector<GlobalValue>& held);

/// The reason why the ranks' values are not what the claim says, whatever one device has: replicas
/// that differ, terms of a gradient that are all of it. Empty if there is none.
std::string fault_of(const SpmdClaim& claim, const std::vector<GlobalValue>& held);

/// The same of a distributed tensor, whose placements say what ranks hold.
std::string fault_of(const SpmdClaim& claim, const Placements& placements);

/// Whether a mesh dim of several ranks has type V, which says nothing of how values belong
/// together.
bool leaves_open(const SpmdClaim& claim);

}  // namespace shardlab
