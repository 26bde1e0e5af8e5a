// text_as_reference.h - a program as the [reference] of a changed one.
#pragma once

#include <set>
#include <string>

#include "sim/scenario/scenario.h"

namespace shardlab {

/// Those that do not follow from the rank: in a world of one there is no other to follow.
std::set<std::string> without_ranks(const Scenario& scenario, const std::set<std::string>& names);

/// The program of the scenario, with other names for what is not among `compared`: pieces are none
/// of the reference's. Empty: it would name nothing.
std::string text_as_reference(const Scenario& scenario, const std::set<std::string>& compared);

}  // namespace shardlab
