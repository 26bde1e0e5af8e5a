// Entries are independent of each other, so a call over several meshes is one call on each.
// Arguments next to the lists are passed to all of them, and have to fit each.
#include "dispatch/list_meshes.h"

#include <algorithm>

#include "mesh/dtensor.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

// Lists of tensors and of numbers have one entry per element; lists of sizes have not.
bool has_entries(const OpRow& row, std::size_t argument) {
  const SchemaType& type = row.op.arguments[argument].type;
  return type.is_list && (type.is_tensor() || type.kind == TypeKind::kScalar);
}

const MeshLayout* mesh_of(const Argument& argument) {
  const bool distributed =
      argument.is_tensor() && argument.tensor().defined() && argument.tensor().distributed();
  return distributed ? argument.tensor().spec()->layout() : nullptr;
}

// Finds for each entry the mesh of the first list that has a distributed tensor there.
std::vector<const MeshLayout*> meshes_of_entries(const OpRow& row, const Arguments& args) {
  std::vector<const MeshLayout*> meshes;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!has_entries(row, i) || !args[i].is_list()) continue;
    const ArgumentList& list = args[i].list();
    if (meshes.size() < list.size()) meshes.resize(list.size());
    for (std::size_t k = 0; k < list.size(); ++k) {
      if (meshes[k] == nullptr) meshes[k] = mesh_of(list[k]);
    }
  }
  return meshes;
}

// The call on these entries alone.
Arguments with_entries(const OpRow& row, const Arguments& args,
                       const std::vector<std::size_t>& entries) {
  Arguments result = args;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!has_entries(row, i)) continue;
    if (args[i].is_list()) {
      ArgumentList list;
      for (const std::size_t k : entries) {
        if (k < args[i].list().size()) list.push_back(args[i].list()[k]);
      }
      result[i] = std::move(list);
    } else if (args[i].is_ints()) {
      Dims numbers;
      for (const std::size_t k : entries) {
        if (k < args[i].ints().size()) numbers.push_back(args[i].ints()[k]);
      }
      result[i] = std::move(numbers);
    }
  }
  return result;
}

// Puts the results of such a call into their places of the results of the whole one.
void place_entries(Results& whole, const Results& part, const std::vector<std::size_t>& entries,
                   std::size_t count) {
  whole.resize(part.size());
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (!part[i].is_list()) {
      whole[i] = part[i];
      continue;
    }
    ArgumentList list = whole[i].is_list() ? whole[i].list() : ArgumentList(count);
    for (std::size_t k = 0; k < entries.size(); ++k) list[entries[k]] = part[i].list()[k];
    whole[i] = std::move(list);
  }
}

}  // namespace

std::vector<std::vector<std::size_t>> entries_by_mesh(const OpRow& row, const Arguments& args) {
  const std::vector<const MeshLayout*> meshes = meshes_of_entries(row, args);
  std::vector<const MeshLayout*> seen;
  for (const MeshLayout* mesh : meshes) {
    if (mesh != nullptr && std::ranges::find(seen, mesh) == seen.end()) seen.push_back(mesh);
  }
  if (seen.size() < 2) return {};
  std::vector<std::vector<std::size_t>> entries(seen.size());
  for (std::size_t k = 0; k < meshes.size(); ++k) {
    const auto found = std::ranges::find(seen, meshes[k]);
    const bool plain = found == seen.end();
    entries[plain ? 0 : static_cast<std::size_t>(found - seen.begin())].push_back(k);
  }
  return entries;
}

Results for_each_mesh(const OpRow& row, const Arguments& args,
                      const std::vector<std::vector<std::size_t>>& groups,
                      const std::function<Results(const Arguments&)>& call) {
  std::size_t count = 0;
  for (const std::vector<std::size_t>& entries : groups) count += entries.size();
  Results results;
  for (const std::vector<std::size_t>& entries : groups) {
    place_entries(results, call(with_entries(row, args, entries)), entries, count);
  }
  return results;
}

}  // namespace shardlab
