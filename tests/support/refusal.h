// refusal.h - the refusal of a call, as one text that a test compares.
#pragma once

#include <functional>
#include <string>

namespace shardlab {

/// "Kind: summary | fix" of the Error that `call` throws, "not refused" if it throws none.
std::string refusal_of(const std::function<void()>& call);

}  // namespace shardlab
