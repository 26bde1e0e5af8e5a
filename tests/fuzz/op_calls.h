// op_calls.h - calls of ops that were recorded, as scenarios of one line.
#pragma once

#include <string>
#include <vector>

namespace shardlab::fuzz {

/// Up to two scenarios an op, on two ranks, from files of value cases: the inputs of the second are
/// cut. Values are drawn, so some calls are refused (indices, matrices).
std::vector<std::string> op_call_scenarios(const std::vector<std::string>& paths);

}  // namespace shardlab::fuzz
