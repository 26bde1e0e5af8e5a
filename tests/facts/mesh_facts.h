// mesh_facts.h - facts about several meshes (tests/golden/facts/meshes/README.md).
#pragma once

#include <memory>
#include <string_view>

#include "tests/facts/check.h"

namespace shardlab {

std::unique_ptr<FactChecker> make_mesh_program_checker(std::string_view stem);
std::unique_ptr<FactChecker> make_two_mesh_checker(std::string_view stem);
std::unique_ptr<FactChecker> make_mesh_value_checker(std::string_view stem);

}  // namespace shardlab
