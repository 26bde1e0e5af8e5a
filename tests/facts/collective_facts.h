// collective_facts.h - results of torch.distributed: programs on real ranks
// (tests/golden/collectives/README.md).
#pragma once

#include <memory>
#include <string_view>

#include "tests/facts/check.h"

namespace shardlab {

std::unique_ptr<FactChecker> make_collective_checker(std::string_view stem);

}  // namespace shardlab
