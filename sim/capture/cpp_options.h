// cpp_options.h - the parts of a printed program around the ranks' function: the world that it runs
// in, its planner, links and rules; the meshes and inputs that it makes itself. Pure.
#pragma once

#include <string>

#include "trace/graph.h"

namespace shardlab {

/// Comments and includes, up to main(). `code`: its later body.
std::string cpp_head(const ProgramGraph& graph, const std::string& code);
/// Statements that declare `options` of the world, each a line.
///   fails  Value: an unknown policy, which is named
std::string cpp_options(const ProgramGraph& graph);
/// The expression that makes a mesh which is no part of another one.
std::string cpp_mesh(const GraphMesh& mesh);

/// The arguments of make_input() for it; and whether they may be left out.
std::string cpp_recipe(const InputRecipe& recipe);
bool is_usual(const InputRecipe& recipe);

}  // namespace shardlab
