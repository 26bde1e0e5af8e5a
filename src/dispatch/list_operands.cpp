// The first element's call decides the placement of the tensor next to the lists, and all others
// use it. A written element keeps its placements: it may stay pending only where its own
// call and the first element's move nothing.
#include "dispatch/list_operands.h"

#include <algorithm>

#include "dispatch/prepare.h"
#include "dispatch/unwrap.h"
#include "mesh/dtensor.h"
#include "redistribute/redistribute.h"
#include "schema/list_element.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

DTensor without_terms(const DTensor& x) {
  if (!x.distributed() || !x.spec()->has_partial()) return x;
  return redistribute_tensor(x, x.spec()->with(Placements(x.spec()->layout()->ndim())));
}

bool mixes_tensors_and_lists(const Arguments& args) {
  return std::ranges::any_of(args, [](const Argument& argument) {
    return argument.is_tensor() && argument.tensor().defined();
  });
}

// Whether the op on element k takes its operands as they are placed.
bool moves_nothing(const OpRow& row, const Arguments& args, std::size_t k) {
  const OpRow* one = element_row(row);
  if (one == nullptr) return false;
  const Unwrapped call = unwrap(*one, element_arguments(row, args, k));
  return !call.distributed || !decide(call)->needs_redistribute;
}

void check_written_terms(const OpRow& row, const Arguments& args, const ArgumentList& list) {
  for (std::size_t k = 0; k < list.size(); ++k) {
    if (!list[k].is_tensor() || !list[k].tensor().distributed()) continue;
    if (!list[k].tensor().spec()->has_partial()) continue;
    if (moves_nothing(row, args, k) && moves_nothing(row, args, 0)) continue;
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: a pending reduction would need the tensor next to the lists "
                            "differently than the other elements",
                            row.name()))
        .with("op", fmt::format("element {}", type_string(list[k].tensor())))
        .with("fix", "redistribute it to R first, or call the op for each element");
  }
}

}  // namespace

Arguments with_whole_operands(const OpRow& row, const Arguments& args) {
  if (!mixes_tensors_and_lists(args)) return args;
  Arguments whole = args;
  for (Argument& argument : whole) {
    if (!argument.is_tensor() || !argument.tensor().defined()) continue;
    argument = without_terms(argument.tensor());
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (!whole[i].is_list()) continue;
    if (row.inplace() && !only_read(row, i)) {
      check_written_terms(row, whole, whole[i].list());
      continue;
    }
    ArgumentList items = whole[i].list();
    for (Argument& item : items) {
      if (item.is_tensor() && item.tensor().defined()) item = without_terms(item.tensor());
    }
    whole[i] = std::move(items);
  }
  return whole;
}

// Entries are independent of each other, so a call over several meshes is one call on each.
// Arguments next to the lists are passed to all of them, and have to fit each.

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
