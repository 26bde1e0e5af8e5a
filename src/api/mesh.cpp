// Text and lists of placements both become an interned spec, and all else is written for specs:
// spec_of() is the one place that converts them. Errors in the text of a type are rethrown with
// that text, because its place in a file is not known here.
#include "api/mesh.h"

#include <fmt/format.h>

#include <charconv>

#include "autograd/at_place.h"
#include "autograd/program.h"
#include "base/error.h"
#include "base/text.h"
#include "comm/device_mesh.h"
#include "mesh/mesh_dim.h"
#include "mesh/mesh_views.h"
#include "mesh/placement_dims.h"
#include "mesh/type_string.h"

namespace shardlab {

namespace {

// Errors in the text quote the text; its place in a file is not known here.
auto parsed(std::string_view text, auto parse) {
  try {
    return parse();
  } catch (const TypeStringError& error) {
    fail(ErrorKind::kValue, Fix{fix_of(error)}, "'{}': {}", text, error.summary());
  }
}

const DTensorSpec* spec_of_type(std::string_view text, const MeshLayout* mesh,
                                const TensorMeta& meta) {
  const ParsedType type = parsed(text, [&] { return parse_type(text, *mesh); });
  const auto refuse = [&](std::string_view what, std::string_view fix) {
    throw Error(ErrorKind::kValue, fmt::format("'{}' is for another {}", text, what))
        .with("op", fmt::format("the tensor is {}", type_string(meta)))
        .with("fix", std::string(fix));
  };
  if (type.shape != meta.shape) refuse("shape", "write the sizes of the tensor, each with its cut");
  if (type.dtype.value_or(meta.dtype) != meta.dtype) {
    refuse("dtype", "cast the tensor first, or leave the dtype out");
  }
  return mesh->arena().spec(mesh, type.placements, type.order, meta);
}

DTensor distribute_to(const DTensor& value, const DTensorSpec* spec,
                      std::optional<std::int64_t> source) {
  if (value.distributed() && value.spec() == spec) return value;
  if (value.distributed()) return redistribute(value, spec);
  if (!is_leaf(value)) {
    throw Error(ErrorKind::kRuntime, "distribute: the result of an op cannot become a leaf")
        .with("op", fmt::format("t {}", type_string(value)))
        .with("fix", "from_local keeps its gradient, t.detach() leaves it behind");
  }
  return program_calls().perform(DistributeEvent{value, spec, source}).at(0).tensor();
}

}  // namespace

std::vector<MeshDim> parse_mesh_dims(std::string_view text) {
  std::vector<MeshDim> dims;
  for (std::string_view item : parts_of_text(text, ",")) {
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    const std::size_t equals = item.find('=');
    std::int64_t size = 0;
    const char* last = item.data() + item.size();
    const bool number =
        equals != std::string::npos && equals > 0 &&
        std::from_chars(item.data() + equals + 1, last, size) == std::from_chars_result{last, {}};
    if (!number) {
      fail(Fix{"name every dim with its size: x=2,y=3"}, "can't read \"{}\" in \"{}\"", item, text);
    }
    dims.push_back({std::string(item.substr(0, equals)), size});
  }
  return dims;
}

const MeshLayout* init_mesh(const std::vector<MeshDim>& dims,
                            const std::vector<std::int64_t>& ranks, SourceLine place) {
  MeshLayout::Init init;
  for (const MeshDim& dim : dims) {
    init.shape.push_back(dim.size);
    init.names.push_back(dim.name);
  }
  init.ranks = ranks;
  return at_place(place, [&] { return construct_mesh(process_arena().layout(std::move(init))); });
}

void check_mesh(const MeshLayout* mesh, std::string_view function) {
  if (mesh != nullptr) return;
  fail(ErrorKind::kValue, Fix{"const MeshLayout* mesh = init_mesh({{\"dp\", 2}})"},
       "{}: the mesh is null", function);
}

const MeshLayout* construct_mesh(const MeshLayout* layout) {
  check_mesh(layout, "construct_mesh");
  const bool known = current_rank().meshes->contains(layout);
  if (!known) program_calls().perform(MeshEvent{layout, {}});
  return layout;
}

const MeshLayout* submesh(const MeshLayout* mesh, const std::vector<std::string>& dims,
                          SourceLine place) {
  return at_place(place, [&] {
    check_mesh(mesh, "submesh");
    const std::optional<Coordinate> coordinate = mesh->coordinate_of(current_rank().rank);
    return construct_mesh(
        slice_layout(mesh, dims, coordinate ? *coordinate : mesh->coordinate_at_index(0)));
  });
}

const MeshLayout* unflatten_mesh(const MeshLayout* mesh, std::string_view dim,
                                 const std::vector<MeshDim>& dims, SourceLine place) {
  Dims sizes;
  std::vector<std::string> names;
  for (const MeshDim& one : dims) {
    sizes.push_back(one.size);
    names.push_back(one.name);
  }
  return at_place(place, [&] {
    check_mesh(mesh, "unflatten_mesh");
    const std::size_t number = mesh_dim_named(*mesh, dim, "unflatten_mesh");
    return construct_mesh(
        part_of(unflattened(view_of(*mesh), number, sizes, names), current_rank().rank));
  });
}

const MeshLayout* concatenate_meshes(const std::vector<const MeshLayout*>& meshes,
                                     SourceLine place) {
  return at_place(place, [&] {
    std::vector<MeshView> views;
    for (const MeshLayout* mesh : meshes) {
      check_mesh(mesh, "concatenate_meshes");
      views.push_back(view_of(*mesh));
    }
    return construct_mesh(part_of(concatenated(views), current_rank().rank));
  });
}

const DTensorSpec* spec_of(std::string_view text, const MeshLayout* mesh, const TensorMeta& meta,
                           const std::optional<Placements>& base) {
  check_mesh(mesh, "a placement");
  if (text.find('[') != std::string_view::npos) return spec_of_type(text, mesh, meta);
  const Placements start = base.value_or(Placements(mesh->ndim()));
  return spec_of(parsed(text, [&] { return parse_placements_by_dim(text, *mesh, start); }), mesh,
                 meta);
}

const DTensorSpec* spec_of(Placements placements, const MeshLayout* mesh, const TensorMeta& meta) {
  check_mesh(mesh, "a placement");
  return mesh->arena().spec(mesh, normalized(std::move(placements), meta.shape.size()), meta);
}

DTensor distribute_tensor(Operand value, const MeshLayout* mesh, const Placements& placements,
                          std::optional<std::int64_t> source) {
  return at_place(value.place, [&] {
    return distribute_to(value, spec_of(placements, mesh, value.tensor.meta()), source);
  });
}

DTensor distribute_tensor(Operand value, const MeshLayout* mesh, std::string_view text,
                          std::optional<std::int64_t> source) {
  return at_place(value.place, [&] {
    return distribute_to(value, spec_of(text, mesh, value.tensor.meta()), source);
  });
}

const DTensorSpec& spec_of(const DTensor& x) {
  if (x.distributed()) return *x.spec();
  fail(Fix{"distribute it first: that places it on a mesh"},
       "{} is a plain tensor; it must be distributed", type_string(x));
}

DTensor redistribute(Operand x, const Placements& placements, const RedistributeOptions& options,
                     const RedistributeDTypes& dtypes) {
  return at_place(x.place, [&] {
    const DTensorSpec* target = spec_of(placements, spec_of(x).layout(), x.tensor.meta());
    return redistribute(x, target, options, dtypes);
  });
}

DTensor redistribute(Operand x, const MeshLayout* mesh, const Placements& placements,
                     const RedistributeOptions& options, const RedistributeDTypes& dtypes) {
  return at_place(x.place, [&] {
    return redistribute(x, spec_of(placements, construct_mesh(mesh), x.tensor.meta()), options,
                        dtypes);
  });
}

DTensor redistribute(Operand x, std::string_view text, const RedistributeOptions& options,
                     const RedistributeDTypes& dtypes) {
  return at_place(x.place, [&] {
    const DTensorSpec& source = spec_of(x);
    const DTensorSpec* target =
        spec_of(text, source.layout(), x.tensor.meta(), source.placements());
    return redistribute(x, target, options, dtypes);
  });
}

void flatten_mesh(const MeshLayout* mesh, const std::vector<std::string>& dims, SourceLine place) {
  at_place(place, [&] {
    std::vector<std::size_t> mesh_dims;
    for (const std::string& name : dims) {
      mesh_dims.push_back(mesh_dim_named(*mesh, name, "flatten_mesh"));
    }
    program_calls().perform(MeshEvent{mesh, std::move(mesh_dims)});
  });
}

DTensor from_local(const DTensor& local, const MeshLayout* mesh, std::string_view text,
                   const std::optional<Dims>& shape) {
  Placements placements =
      parsed(text, [&] { return parse_placements_by_dim(text, *mesh, Placements(mesh->ndim())); });
  std::optional<TensorMeta> global;
  if (shape) global = contiguous_meta(*shape, local.dtype());
  return from_local(local, mesh, placements, global);
}

}  // namespace shardlab
