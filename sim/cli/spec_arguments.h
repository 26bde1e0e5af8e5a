// spec_arguments.h - meshes and types as the command line gives them.
#pragma once

#include <string>

#include "mesh/spec.h"

namespace shardlab {

/// "x=2,y=3". Fails with Value naming what can't be read.
const MeshLayout* parse_mesh(const std::string& text);
/// A type string on a mesh; f32 where it names no dtype. Fails with the place in the text.
const DTensorSpec* parse_spec(const std::string& text, const MeshLayout* layout);

}  // namespace shardlab
