// Meshes that a program makes: of a shape, of ranks, of groups, and of the dims of other meshes.
// Those of a shape and of ranks are collective over the world.
#include "comm/device_mesh.h"

#include <algorithm>

#include "api/mesh.h"
#include "base/error.h"
#include "base/rank_context.h"
#include "base/text.h"
#include "comm/observer.h"
#include "mesh/mesh_views.h"
#include "mesh/placement_dims.h"
#include "mesh/type_string.h"
#include "sim/language/run/mesh_value.h"
#include "sim/language/values/global_names.h"
#include "sim/language/values/object.h"

namespace shardlab {

namespace {

// local_map: a function of pieces as one of distributed tensors. On one device it is called as it
// is. Gradients of inputs are labelled as the program says, else as the inputs are.

bool is_placement_list(const Value& value) {
  return value.is_sequence() && std::ranges::all_of(items_of(value), [](const Value& item) {
           return item.is<Placement>();
         });
}

Placements placements_in(const Value& list, std::size_t ndim) {
  Placements placements;
  for (const Value& item : items_of(list)) placements.push_back(placement_of(item));
  return normalized(std::move(placements), ndim);
}

// The entry for an argument or result: of one list for all, or of a list of lists.
Value entry_of(const Value& lists, std::size_t index) {
  if (lists.is_none() || !lists.is_sequence()) return {};
  if (is_placement_list(lists) && !items_of(lists).empty()) return index == 0 ? lists : Value();
  return index < items_of(lists).size() ? items_of(lists)[index] : Value();
}

class LocalMap final : public Callable {
 public:
  explicit LocalMap(const Parameters& given)
      : function_(given["func"]),
        out_(given["out_placements"]),
        in_(given["in_placements"]),
        gradients_(given["in_grad_placements"]),
        mesh_(given["device_mesh"]),
        redistributes_(given.flag_or("redistribute_inputs", false)) {}
  std::string_view kind() const override { return "local_map"; }

  Value call(Interpreter& in, CallValues call) override {
    if (in.plain()) return in.call(function_, std::move(call));
    const MeshLayout* mesh = mesh_.is_none() ? nullptr : construct_mesh(layout_of(in, mesh_));
    bool distributed = false;
    for (std::size_t i = 0; i < call.positional.size(); ++i) {
      Value& argument = call.positional[i];
      if (!argument.is_tensor() || !argument.as<DTensor>().distributed()) continue;
      if (mesh == nullptr) mesh = argument.as<DTensor>().spec()->layout();
      distributed = true;
      argument = piece_of(argument.as<DTensor>(), i);
    }
    const Value result = in.call(function_, std::move(call));
    if (!distributed) return result;
    if (result.is_tensor()) return labelled(result, 0, mesh);
    if (!result.is_sequence()) return result;
    Values results;
    for (std::size_t i = 0; i < items_of(result).size(); ++i) {
      results.push_back(labelled(items_of(result)[i], i, mesh));
    }
    return make_tuple(std::move(results));
  }

 private:
  DTensor piece_of(DTensor x, std::size_t index) const {
    if (const Value wanted = entry_of(in_, index); !wanted.is_none()) {
      const Placements placements = placements_in(wanted, x.ndim());
      if (x.spec()->placements() != placements) {
        if (!redistributes_) {
          fail(Fix{"redistribute_inputs=True moves it, or x.redistribute(...)"},
               "local_map: argument {} is {}, in_placements have {}", index, type_string(x),
               to_string(placements));
        }
        x = redistribute(x, placements);
      }
    }
    const Value label = entry_of(gradients_, index);
    return label.is_none() ? to_local(x) : to_local(x, placements_in(label, x.ndim()));
  }

  Value labelled(const Value& result, std::size_t index, const MeshLayout* mesh) const {
    const Value label = entry_of(out_, index);
    if (!result.is_tensor() || label.is_none()) return result;
    const DTensor& piece = result.as<DTensor>();
    return from_local(piece, mesh, placements_in(label, piece.ndim()), std::nullopt);
  }

  const Value function_, out_, in_, gradients_, mesh_;
  const bool redistributes_;
};

// local_map(func, out_placements, in_placements=None, in_grad_placements=None, device_mesh=None,
// redistribute_inputs=False): a function of distributed tensors, which calls `func` with pieces.
Value run_local_map(Interpreter&, const Value*, const Parameters& given) {
  return ObjectValue{std::make_shared<LocalMap>(given)};
}

std::vector<std::string> names_given(const Parameters& given) {
  constexpr std::string_view kNames = "mesh_dim_names";
  std::vector<std::string> names;
  if (!given.has(kNames)) return names;
  const Values none, &all = given[kNames].is_sequence() ? items_of(given[kNames]) : none;
  for (const Value& name : all) {
    if (name.is<std::string>()) names.push_back(name.as<std::string>());
  }
  if (names.empty() || names.size() != all.size()) {
    fail(Fix{"mesh_dim_names=(\"dp\", \"tp\")"}, "mesh_dim_names is {}; it must be names of dims",
         repr(given[kNames]));
  }
  return names;
}

Arena& arena_of(const Interpreter& in) { return in.setup().layout->arena(); }

// init_device_mesh("cuda", (2, 4), mesh_dim_names=("dp", "tp")). The scenario's is `mesh`, also
// without its names.
Value run_init_device_mesh(Interpreter& in, const Value*, const Parameters& given) {
  const MeshLayout& own = *in.setup().reported;
  const std::vector<std::string> names = names_given(given);
  const Dims shape = given.sizes("mesh_shape");
  // [reference] may be the program itself, on one device.
  const bool alone = in.setup().world_size == 1 && shape.size() == own.ndim();
  const bool same =
      (alone || (shape == own.shape() && own.is_iota())) && (names.empty() || names == own.names());
  if (same) return in.meshes()[0];
  const MeshLayout* layout = arena_of(in).layout({.shape = shape, .names = names});
  warn_of_fake(*layout, given["backend_override"]);
  return made_mesh(in, layout);
}

// Nested lists as shape and ranks.
void read_ranks(const Parameters& given, const Value& value, std::size_t depth,
                MeshLayout::Init& init) {
  if (value.is<std::int64_t>() && depth == init.shape.size()) {
    init.ranks.push_back(value.as<std::int64_t>());
    return;
  }
  const Values none, &items = value.is_sequence() ? items_of(value) : none;
  const auto count = static_cast<std::int64_t>(items.size());
  if (init.ranks.empty() && depth == init.shape.size()) init.shape.push_back(count);
  if (items.empty() || depth >= init.shape.size() || init.shape[depth] != count) {
    fail(Fix{"write for example mesh=[[0, 1], [2, 3]]"},
         "DeviceMesh: argument 'mesh' is {}, not an array of ranks whose rows are of one length",
         repr(given["mesh"]));
  }
  for (const Value& item : items) read_ranks(given, item, depth + 1, init);
}

MeshLayout::Init ranks_given(Interpreter& in, const Parameters& given) {
  MeshLayout::Init init{.names = names_given(given)};
  Value ranks = given["mesh"];
  if (ranks.is_tensor()) ranks = in.call(in.attribute(ranks, "tolist"), {});
  read_ranks(given, in.settle(ranks), 0, init);
  if (init.shape.empty()) init.shape.push_back(1);
  return init;
}

// The dims whose groups PyTorch would put in another order than that of the mesh.
std::vector<std::string> sorted_dims(const MeshLayout& layout) {
  std::vector<std::string> dims;
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    bool sorted = true;
    for (std::int64_t i = 0; i < layout.size(); ++i) {
      const auto group = layout.group_ranks(dim, layout.coordinate_at_index(i));
      sorted = sorted && std::ranges::is_sorted(group);
    }
    if (!sorted) dims.push_back(layout.names()[dim]);
  }
  return dims;
}

void warn_of_sorted_groups(const MeshLayout& layout) {
  Observer* const observer = observer_to_tell();
  const std::vector<std::string> dims = sorted_dims(layout);
  if (dims.empty() || observer == nullptr) return;
  observer->warning(fmt::format(
      "{}: mesh.sorted-groups: PyTorch sorts the ranks of the groups along {} of {}, so that "
      "get_local_rank() is not the coordinate there and pieces change places; "
      "preserve_rank_order=True keeps the order, as here",
      place_text(current_rank().position), text_of_list(dims, ", "), layout.text()));
}

Value run_make_mesh(Interpreter& in, const Value*, const Parameters& given) {
  const MeshLayout* layout = arena_of(in).layout(ranks_given(in, given));
  if (!given.flag_or("preserve_rank_order", false)) warn_of_sorted_groups(*layout);
  warn_of_fake(*layout, given["backend_override"]);
  return made_mesh(in, layout);
}

GroupValue group_in(const Value& value) {
  const auto* group = value.get<GroupValue>();
  if (group != nullptr && !group->outside) return *group;
  fail(ErrorKind::kRuntime, Fix{"call it with a group that the rank is in: mesh.get_group(\"tp\")"},
       "DeviceMesh.from_group: {} is no group with this rank", repr(value));
}

Value run_from_group(Interpreter& in, const Value*, const Parameters& given) {
  std::vector<GroupValue> groups;
  const bool list = given["group"].is_sequence();
  if (list) {
    for (const Value& item : items_of(given["group"])) groups.push_back(group_in(item));
  } else {
    groups.push_back(group_in(given["group"]));
  }
  MeshLayout::Init init{.names = names_given(given)};
  if (list) {
    if (groups.empty() || !given.has("mesh") || init.names.empty()) {
      fail(Fix{"from_group([g1, g2], \"cpu\", [[0, 1], [2, 3]], "
               "mesh_dim_names=(\"dp\", \"tp\"))"},
           "DeviceMesh.from_group: several groups need mesh= and mesh_dim_names=");
    }
    init = ranks_given(in, given);
    if (init.shape.size() != groups.size()) {
      fail(Fix{"give one group for each dim of mesh="},
           "DeviceMesh.from_group: {} groups for a mesh of {} dims", groups.size(),
           init.shape.size());
    }
  } else {
    init.ranks = groups_by_rank(in, groups[0]).ranks(in.setup().rank);
    init.shape = {static_cast<std::int64_t>(init.ranks.size())};
    if (given.has("mesh") && ranks_given(in, given).ranks != init.ranks) {
      fail(Fix{"leave mesh= out"}, "DeviceMesh.from_group: mesh= is not the ranks of the group, {}",
           text_of_list(init.ranks, ", "));
    }
  }
  const MeshValue mesh = mesh_value(in, arena_of(in).layout(std::move(init)));
  if (in.plain()) return made_mesh(in, mesh.reported);
  std::vector<ProcessGroup*> members;
  for (std::size_t dim = 0; dim < groups.size(); ++dim) {
    members.push_back(&group_of(in, groups[dim]));
    const auto wanted = mesh.reported->group_of(dim, in.setup().rank);
    if (std::ranges::equal(members[dim]->ranks(), wanted)) continue;
    fail(Fix{"give the ranks of the groups, in their order"},
         "DeviceMesh.from_group: group {} has the ranks {}, and dim {} of mesh= {}", dim,
         text_of_list(members[dim]->ranks(), ", "), dim, text_of_list(wanted, ", "));
  }
  current_rank().meshes->construct_of(mesh.layout, std::move(members));
  return mesh;
}

Value run_concatenate(Interpreter& in, const Value*, const Parameters& given) {
  constexpr std::string_view kList = "device_mesh_list";
  std::vector<MeshView> views;
  const Values none, &meshes = given[kList].is_sequence() ? items_of(given[kList]) : none;
  for (const Value& item : meshes) {
    if (item.is<MeshValue>()) views.push_back(view_of(*item.as<MeshValue>().reported));
  }
  if (views.empty() || views.size() != meshes.size()) {
    fail(Fix{"DeviceMesh._concatenate([mesh[\"dp\"], mesh[\"tp\"]])"},
         "DeviceMesh._concatenate: {} is no list of meshes", repr(given[kList]));
  }
  const MeshLayout* layout = part_of(concatenated(views), in.setup().rank);
  return mesh_value(in, layout, meshes[0].as<MeshValue>().root);
}

}  // namespace

BuiltinTable device_mesh_builtins() {
  static const Builtin kTable[] = {
      {std::string(kMakeMesh),
       "DeviceMesh(device_type, mesh, mesh_dim_names=, backend_override=, preserve_rank_order=)",
       run_make_mesh},
      {"_concatenate", "DeviceMesh._concatenate(device_mesh_list)", run_concatenate},
      {"from_group", "DeviceMesh.from_group(group, device_type, mesh=, mesh_dim_names=)",
       run_from_group}};
  return kTable;
}

BuiltinTable mesh_builtins() {
  static const Builtin kTable[] = {
      {"init_device_mesh", "(device_type, mesh_shape, mesh_dim_names=, backend_override=)",
       run_init_device_mesh},
      {"local_map",
       "(func, out_placements, in_placements=, in_grad_placements=, device_mesh=, "
       "redistribute_inputs=)",
       run_local_map}};
  return kTable;
}

}  // namespace shardlab
