// cpp_options.h - what stands around the ranks' function of a printed program: the world that it
// runs in, its planner, links and rules; the meshes and inputs that it makes itself. Pure.
#pragma once

#include <string>

#include "trace/graph.h"

namespace shardlab {

/// Comments and includes, up to main(). `code`: what will stand in it.
std::string cpp_head(const ProgramGraph& graph, const std::string& code);
/// Statements that declare `options` of the world, each a line.
///   fails  Value: a policy that nobody knows, which is named
std::string cpp_options(const ProgramGraph& graph);
/// The expression that makes a mesh which is no part of another one.
std::string cpp_mesh(const GraphMesh& mesh);

/// What make_input() takes for it; and whether that may be left out.
std::string cpp_recipe(const InputRecipe& recipe);
bool is_usual(const InputRecipe& recipe);

}  // namespace shardlab
