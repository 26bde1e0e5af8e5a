// spec_arguments.h - meshes, types and links as the command line gives them.
#pragma once

#include <string>

#include "mesh/spec.h"

namespace shardlab {

/// "x=2,y=3". Fails with Value naming the part that can't be read.
const MeshLayout* parse_mesh(const std::string& text);
/// A type string on a mesh; f32 where it names no dtype. Fails with the place in the text.
const DTensorSpec* parse_spec(const std::string& text, const MeshLayout* layout);

/// A mesh dim's link: 2^30 bytes a second, and microseconds a hop, both above 0.
struct LinkArgument {
  std::string dim;
  double gbps, us;
};
/// "x=400,1.5". Fails with Value if it is not that.
LinkArgument parse_link(const std::string& text);
/// Numbers above 0, "100,2,1". None if it is not so many.
std::optional<std::vector<double>> numbers_above_zero(std::string_view text, std::size_t count);

}  // namespace shardlab
