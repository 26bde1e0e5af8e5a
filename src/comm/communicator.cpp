// Groups along mesh dims: ranks that agree on all other mesh dims form a group, and the color that
// they give to split() is the first global rank among them, which they compute from the layout
// without communication. The key, row-major over the dims of the group, orders them.
#include "comm/communicator.h"

#include "mesh/mesh_layout.h"

namespace shardlab {

std::string group_name(const MeshLayout& layout, std::span<const std::size_t> mesh_dims) {
  std::string name;
  for (const std::size_t mesh_dim : mesh_dims) {
    name += (name.empty() ? "" : "_") + layout.names()[mesh_dim];
  }
  return name;
}

void Communicator::compare_answers(const std::function<std::uint64_t(std::int64_t)>& /*answer*/) {}

void Communicator::meet(Call& call) { perform(call); }

std::unique_ptr<Communicator> Communicator::along(const MeshLayout& layout,
                                                  std::span<const std::size_t> mesh_dims) {
  const std::string name = group_name(layout, mesh_dims);
  std::optional<Coordinate> coordinate =
      layout.coordinate_of(ranks()[static_cast<std::size_t>(rank())]);
  if (!coordinate) return split(-1, 0, name);
  // Ranks that agree on all other mesh dims form a group: its first global rank names it. An index
  // in the layout would not do: parts of one mesh have layouts of their own.
  std::int64_t key = 0;
  for (const std::size_t mesh_dim : mesh_dims) {
    key = key * layout.size(mesh_dim) + (*coordinate)[mesh_dim];
    (*coordinate)[mesh_dim] = 0;
  }
  return split(layout.rank_at(*coordinate), key, name);
}

}  // namespace shardlab
