// Every dim of a mesh is a walk through the row-major order of its root: sizes and strides. To
// slice picks walks, to flatten joins them, to unflatten cuts one, to concatenate puts walks side
// by side. So equal meshes are equal however they were made, and no rank has to ask another.
#include "mesh/mesh_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "mesh/spec.h"

namespace shardlab {
namespace {

void append(MeshSteps& steps, const MeshStep& step) {
  if (step.size == 1) return;
  if (!steps.empty() && steps.back().stride == step.size * step.stride) {
    steps.back() = {steps.back().size * step.size, step.stride};
  } else {
    steps.push_back(step);
  }
}

/// All dims as one walk.
MeshSteps joined(const MeshView& view) {
  MeshSteps all;
  for (const MeshSteps& steps : view.steps) {
    for (const MeshStep& step : steps) append(all, step);
  }
  return all;
}

bool overlap(const MeshView& view) {
  MeshSteps steps = joined(view);
  std::ranges::sort(steps, std::greater{},
                    [](const MeshStep& step) { return std::pair(step.stride, step.size); });
  for (std::size_t i = 1; i < steps.size(); ++i) {
    if (steps[i - 1].stride % (steps[i].stride * steps[i].size) != 0) return true;
  }
  return false;
}

std::string text_of(const MeshView& view) { return text_of_mesh_dims(view.names, view.shape); }

void add_dim(MeshView& view, const MeshView& from, std::size_t dim) {
  view.shape.push_back(from.shape[dim]);
  view.steps.push_back(from.steps[dim]);
  view.names.push_back(from.names[dim]);
}

/// The view and dim that a name means.
std::pair<const MeshView*, std::size_t> dim_named(const MeshView& view, const std::string& name,
                                                  std::span<const MeshView> flats) {
  const auto own = std::ranges::find(view.names, name);
  if (own != view.names.end()) {
    return {&view, static_cast<std::size_t>(own - view.names.begin())};
  }
  std::vector<std::string> known = view.names;
  for (const MeshView& flat : flats) {
    if (flat.names[0] == name) return {&flat, 0};
    known.push_back(flat.names[0]);
  }
  throw Error(ErrorKind::kValue, fmt::format("mesh has no dim '{}'", name))
      .with("mesh", text_of(view))
      .with("fix", suggest(name, known));
}

/// `size` places that are `stride` apart along a dim, as steps of the root.
MeshSteps part_of_dim(const MeshView& view, std::size_t dim, std::int64_t size,
                      std::int64_t stride) {
  MeshSteps inner_first;
  const MeshSteps& steps = view.steps[dim];
  for (std::size_t i = steps.size(); i-- > 0 && size > 1;) {
    const MeshStep& step = steps[i];
    if (stride % step.size == 0) {
      stride /= step.size;
      continue;
    }
    const std::int64_t taken = std::min(step.size / std::max<std::int64_t>(stride, 1), size);
    if (step.size % stride != 0 || (i > 0 && size % taken != 0) || (i == 0 && taken < size)) {
      throw Error(ErrorKind::kValue, "_unflatten: these sizes part ranks that are not evenly apart")
          .with("mesh", text_of(view))
          .with("fix", "unflatten in the sizes of the dims that were flattened");
    }
    inner_first.push_back({taken, step.stride * stride});
    size /= taken;
    stride = 1;
  }
  MeshSteps result;
  for (std::size_t i = inner_first.size(); i-- > 0;) append(result, inner_first[i]);
  return result;
}

/// Empty for a rank outside.
std::optional<std::int64_t> index_in(const MeshLayout& root, std::int64_t rank) {
  const auto coordinate = root.coordinate_of(rank);
  return coordinate ? std::optional((*coordinate)[0]) : std::nullopt;
}

std::int64_t place_of(const MeshSteps& steps, std::int64_t index) {
  std::int64_t place = 0;
  for (const MeshStep& step : steps) place = place * step.size + index / step.stride % step.size;
  return place;
}

}  // namespace

MeshView view_of(const MeshLayout& layout) {
  MeshView view{layout.root(), layout.shape(), {}, layout.names(), layout.named()};
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) view.steps.push_back(layout.steps(dim));
  return view;
}

const MeshLayout* part_of(const MeshView& view, std::int64_t rank) {
  MeshLayout::Init init{.shape = view.shape, .names = {}, .ranks = {}};
  if (view.named) init.names = view.names;
  const MeshLayout& root = *view.root;
  const MeshSteps all = joined(view);
  const bool whole = all == root.steps(0);
  if (!whole || !root.is_iota()) init.ranks = ranks_along(root, all, rank);
  if (!whole) {
    init.root = view.root;
    init.steps = view.steps;
  }
  return root.arena().layout(std::move(init));
}

MeshView sliced(const MeshView& view, std::span<const std::string> names,
                std::span<const MeshView> flats) {
  if (names.empty()) {
    fail(ErrorKind::kValue, Fix{fmt::format("name some of: {}", text_of_list(view.names, ", "))},
         "a mesh slice names no dim");
  }
  if (std::ranges::equal(names, view.names)) return view;
  MeshView slice{view.root, {}, {}, {}};
  for (const std::string& name : names) {
    const auto [from, dim] = dim_named(view, name, flats);
    add_dim(slice, *from, dim);
  }
  const MeshSteps all = joined(slice);
  const bool descends = std::ranges::is_sorted(all, std::greater{}, &MeshStep::stride);
  const bool twice = std::ranges::adjacent_find(names) != names.end();
  if (!descends || twice) {
    throw Error(ErrorKind::kValue, "the dims of a mesh slice must be in the mesh's order")
        .with("mesh", text_of(view))
        .with("fix", fmt::format("name them in this order: {}", text_of_list(view.names, ", ")));
  }
  if (overlap(slice)) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("the dims {} of a mesh share steps", text_of_list(names, ", ")))
        .with("mesh", text_of(view))
        .with("fix", "name a flattened dim or the dims that it is made of, not both");
  }
  return slice;
}

MeshView flattened(const MeshView& view, std::string_view name) {
  MeshView flat{view.root, {product(view.shape)}, {joined(view)}, {}};
  flat.names = {name.empty() ? text_of_list(view.names, "_") : std::string(name)};
  return flat;
}

MeshView unflattened(const MeshView& view, std::size_t mesh_dim, const Dims& sizes,
                     std::span<const std::string> names) {
  const auto refuse = [&](ErrorKind kind, std::string what, std::string fix) {
    throw Error(kind, "_unflatten: " + std::move(what))
        .with("mesh", text_of(view))
        .with("fix", std::move(fix));
  };
  if (sizes.size() != names.size()) {
    refuse(ErrorKind::kRuntime, fmt::format("{} sizes and {} names", sizes.size(), names.size()),
           "give one name a size");
  }
  const std::int64_t length = view.shape[mesh_dim];
  if (std::ranges::any_of(sizes, [](std::int64_t size) { return size < 1; }) ||
      product(sizes) != length) {
    refuse(ErrorKind::kValue,
           fmt::format("{} has {} ranks, and {} has {}", text_of_mesh_dims(names, sizes),
                       product(sizes), view.names[mesh_dim], length),
           fmt::format("give sizes whose product is {}", length));
  }
  MeshView result{view.root, {}, {}, {}};
  for (std::size_t dim = 0; dim < view.shape.size(); ++dim) {
    if (dim != mesh_dim) {
      add_dim(result, view, dim);
      continue;
    }
    std::int64_t stride = length;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      stride /= sizes[i];
      result.shape.push_back(sizes[i]);
      result.steps.push_back(part_of_dim(view, dim, sizes[i], stride));
      result.names.push_back(names[i]);
    }
  }
  return result;
}

MeshView concatenated(std::span<const MeshView> views) {
  if (views.empty()) {
    fail(ErrorKind::kRuntime, Fix{"DeviceMesh._concatenate([mesh[\"dp\"], mesh[\"tp\"]])"},
         "_concatenate: the list is empty");
  }
  MeshView result{views[0].root, {}, {}, {}};
  std::vector<std::string> texts;
  for (const MeshView& view : views) {
    texts.push_back(text_of(view));
    for (std::size_t dim = 0; dim < view.shape.size(); ++dim) add_dim(result, view, dim);
  }
  const bool one_root =
      std::ranges::all_of(views, [&](const MeshView& view) { return view.root == result.root; });
  if (!one_root || overlap(result)) {
    throw Error(ErrorKind::kRuntime, one_root ? "_concatenate: the meshes share dims"
                                              : "_concatenate: the meshes are of different ranks")
        .with("mesh", text_of_list(texts, ", "))
        .with("fix", "concatenate slices of one mesh along different dims");
  }
  return result;
}

std::optional<std::vector<MeshAxis>> axes_on(const MeshLayout& fine, const MeshLayout& layout) {
  if (fine.is_cut() || fine.root() != layout.root()) return std::nullopt;
  std::vector<MeshAxis> axes;
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    MeshAxis& axis = axes.emplace_back();
    std::int64_t size = 1;
    for (const MeshStep& step : layout.steps(dim)) {
      for (std::size_t part = 0; part < fine.ndim(); ++part) {
        if (fine.size(part) == 1) continue;
        const MeshStep own = fine.steps(part)[0];
        const bool inside =
            own.stride >= step.stride && own.stride * own.size <= step.stride * step.size;
        if (!inside) continue;
        axis.emplace_back(part, 1);
        size *= fine.size(part);
      }
    }
    if (size != layout.size(dim)) return std::nullopt;
    for (auto& [part, step] : axis) {
      size /= fine.size(part);
      step = size;
    }
  }
  return axes;
}

const MeshLayout* refinement(const MeshLayout& a, const MeshLayout& b) {
  if (a.root() != b.root()) return nullptr;
  std::set<std::int64_t> bounds{1, a.root()->size()};
  for (const MeshLayout* layout : {&a, &b}) {
    for (std::size_t dim = 0; dim < layout->ndim(); ++dim) {
      for (const MeshStep& step : layout->steps(dim)) {
        bounds.insert({step.stride, step.stride * step.size});
      }
    }
  }
  MeshLayout::Init init{.shape = {}, .names = {}, .ranks = {}};
  for (auto bound = bounds.rbegin(); std::next(bound) != bounds.rend(); ++bound) {
    const std::int64_t stride = *std::next(bound);
    if (*bound % stride != 0 || init.shape.size() == kMostMeshDims) return nullptr;
    init.shape.push_back(*bound / stride);
    std::string name = fmt::format("m{}", init.shape.size() - 1);
    for (std::size_t dim = 0; dim < a.ndim(); ++dim) {
      for (const MeshStep& step : a.steps(dim)) {
        if (stride < step.stride || *bound > step.stride * step.size) continue;
        name = a.names()[dim];
        if (init.shape.back() != a.size(dim)) name += fmt::format("_{}", init.shape.size() - 1);
      }
    }
    init.names.push_back(std::move(name));
  }
  const MeshLayout& root = *a.root();
  for (std::int64_t i = 0; i < root.size() && !root.is_iota(); ++i) {
    init.ranks.push_back(root.rank_at_index(i));
  }
  return init.shape.empty() ? nullptr : root.arena().layout(std::move(init));
}

std::optional<std::int64_t> place_along(const MeshLayout& root, const MeshSteps& steps,
                                        std::int64_t rank) {
  const auto index = index_in(root, rank);
  return index ? std::optional(place_of(steps, *index)) : std::nullopt;
}

std::int64_t first_along(const MeshLayout& root, const MeshSteps& steps, std::int64_t rank) {
  std::int64_t index = index_in(root, rank).value_or(0);
  for (const MeshStep& step : steps) index -= index / step.stride % step.size * step.stride;
  return index;
}

std::vector<std::int64_t> ranks_along(const MeshLayout& root, const MeshSteps& steps,
                                      std::int64_t rank) {
  std::vector<std::int64_t> indices{first_along(root, steps, rank)};
  for (const MeshStep& step : steps) {
    std::vector<std::int64_t> longer;
    longer.reserve(indices.size() * static_cast<std::size_t>(step.size));
    for (const std::int64_t index : indices) {
      for (std::int64_t i = 0; i < step.size; ++i) longer.push_back(index + i * step.stride);
    }
    indices = std::move(longer);
  }
  for (std::int64_t& index : indices) index = root.rank_at_index(index);
  return indices;
}

const MeshLayout* slice_layout(const MeshLayout* layout, std::span<const std::string> names,
                               const Coordinate& coordinate) {
  return part_of(sliced(view_of(*layout), names), layout->rank_at(coordinate));
}

const MeshLayout* flatten_layout(const MeshLayout* layout, std::span<const std::string> names,
                                 const Coordinate& coordinate, std::string_view name) {
  return part_of(flattened(sliced(view_of(*layout), names), name), layout->rank_at(coordinate));
}

namespace {

/// Refuses a rank outside, unless the slice is the whole mesh.
const MeshView& checked(const MeshView& slice, const MeshLayout& layout, std::int64_t rank) {
  if (layout.coordinate_of(rank) || product(slice.shape) == layout.size()) return slice;
  throw Error(ErrorKind::kRuntime,
              fmt::format("rank {} is outside the mesh, so that it has no slice along {}", rank,
                          text_of_list(slice.names, ", ")))
      .with("mesh", layout.text())
      .with("fix", "ask for the slice on the ranks of the mesh only");
}

}  // namespace

const MeshLayout* slice_layout(const MeshLayout* layout, std::span<const std::string> names,
                               std::int64_t rank) {
  return part_of(checked(sliced(view_of(*layout), names), *layout, rank), rank);
}

const MeshLayout* flatten_layout(const MeshLayout* layout, std::span<const std::string> names,
                                 std::int64_t rank, std::string_view name) {
  const MeshView slice = sliced(view_of(*layout), names);
  return part_of(flattened(checked(slice, *layout, rank), name), rank);
}

}  // namespace shardlab
