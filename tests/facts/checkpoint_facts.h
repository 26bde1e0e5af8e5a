// checkpoint_facts.h - checkpoints that PyTorch wrote, by the .json beside each that says what it
// holds, and pairs of checkpoints with a planted mistake (tests/golden/checkpoints/README.md).
#pragma once

#include <memory>
#include <string_view>

#include "tests/facts/check.h"

namespace shardlab {

std::unique_ptr<FactChecker> make_checkpoint_checker(std::string_view stem);
std::unique_ptr<FactChecker> make_pair_checker(std::string_view stem);

}  // namespace shardlab
