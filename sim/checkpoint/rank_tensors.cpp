// A piece is boxes of the whole, each with its place in the local tensor.
#include "sim/checkpoint/rank_tensors.h"

#include <filesystem>
#include <set>

#include "api/collectives.h"
#include "api/groups.h"
#include "base/error.h"
#include "base/rank_context.h"
#include "base/text.h"
#include "mesh/local_shape.h"
#include "sim/checkpoint/writer.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

std::string path_of(const std::string& folder, std::int64_t rank, std::size_t file,
                    std::size_t files) {
  return fmt::format("{}/shard-{:05}-model-{:05}-of-{:05}.safetensors", folder, rank + 1, file + 1,
                     files);
}

// The boxes of one rank that it writes.
std::vector<HeldBox> written_by(const DTensor& tensor, std::int64_t rank) {
  if (!tensor.distributed())
    return rank == 0
               ? std::vector<HeldBox>{{{Dims(tensor.ndim()), tensor.shape()}, Dims(tensor.ndim())}}
               : std::vector<HeldBox>();
  const auto coordinate = tensor.spec()->layout()->coordinate_of(rank);
  return coordinate ? boxes_of(*tensor.spec(), *coordinate) : std::vector<HeldBox>();
}

// Files of a save by more ranks, or of other cuts, would be read together with the new ones.
void remove_others(const std::string& folder, std::size_t files) {
  std::set<std::string> ours;
  for (std::int64_t rank = 0; rank < current_rank().world_size; ++rank) {
    for (std::size_t file = 0; file < files; ++file)
      ours.insert(path_of(folder, rank, file, files));
  }
  std::vector<std::filesystem::path> others;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool of_ranks = name.starts_with("shard-") && name.ends_with(".safetensors");
    if (of_ranks && !ours.contains(folder + "/" + name)) others.push_back(entry.path());
  }
  for (const std::filesystem::path& other : others) std::filesystem::remove(other);
}

}  // namespace

void save(const NamedTensors& tensors, const std::string& folder) {
  const std::int64_t own = current_rank().rank;
  std::size_t files = 1;
  for (std::int64_t rank = 0; rank < current_rank().world_size; ++rank) {
    for (const auto& [name, tensor] : tensors)
      files = std::max(files, written_by(tensor, rank).size());
  }
  std::filesystem::create_directories(folder);
  if (own == 0) remove_others(folder, files);
  for (std::size_t file = 0; file < files; ++file) {
    MadeTensors pieces;
    WriteOptions options{.replace = true};
    for (const auto& [name, tensor] : tensors) {
      if (tensor.distributed() && tensor.spec()->has_partial()) {
        fail(Fix{"redistribute it to replicas or shards before"}, "save: '{}' is pending: {}", name,
             type_string(tensor));
      }
      const std::vector<HeldBox> boxes = written_by(tensor, own);
      if (file >= boxes.size()) continue;
      const HeldBox& box = boxes[file];
      pieces.push_back(
          {name, &stored_type(tensor.dtype()), box.whole.shape, [&held = tensor, box] {
             const std::vector<std::byte> bytes = read_bytes(held.local());
             const StridedBytes local{
                 .bytes =
                     FileBytes("", {reinterpret_cast<const char*>(bytes.data()), bytes.size()}),
                 .item = item_bytes(held.dtype()),
                 .shape = held.local().shape(),
                 .stride = contiguous_strides(held.local().shape())};
             std::string out(static_cast<std::size_t>(product(box.whole.shape) * local.item), '\0');
             local.read({box.local, box.whole.shape}, out.data(),
                        contiguous_strides(box.whole.shape));
             return out;
           }});
      options.offsets.push_back(box.whole.from);
    }
    if (file == 0 || !pieces.empty())
      write_tensors(path_of(folder, own, file, files), pieces, options);
  }
  barrier(world_group());
}

DTensor load(const Checkpoint& checkpoint, const std::string& name, const MeshLayout* mesh,
             const Placements& placements) {
  const StoredTensor* tensor = checkpoint.find(name);
  if (tensor == nullptr || tensor->type == nullptr || !tensor->type->dtype) {
    std::vector<std::string> known;
    for (const StoredTensor& one : checkpoint.tensors()) known.push_back(one.name);
    fail(tensor == nullptr ? ErrorKind::kValue : ErrorKind::kUnsupported, Fix{suggest(name, known)},
         "load: {} has no tensor '{}' of a dtype that programs take", checkpoint.path(), name);
  }
  checkpoint.check_whole(*tensor);
  Placements all = placements;
  normalize_dims(all, tensor->shape.size());
  const DTensorSpec* spec =
      mesh->arena().spec(mesh, all, contiguous_meta(tensor->shape, *tensor->type->dtype));
  if (spec->has_partial())
    fail(Fix{"load it whole, or cut"}, "load: a checkpoint has no terms of '{}'", name);
  const auto here = mesh->coordinate_of(current_rank().rank);
  const Dims shape = here ? local_shape(*spec, *here) : Dims{0};
  Device& device = *current_rank().device;
  const Tensor local = empty(device, contiguous_meta(shape, spec->dtype()));
  if (here && !device.shape_only()) {
    std::string bytes(static_cast<std::size_t>(product(shape) * tensor->type->bytes), '\0');
    for (const HeldBox& box : boxes_of(*spec, *here, Replicas::kAll)) {
      std::int64_t to = 0;
      for (std::size_t dim = 0; dim < shape.size(); ++dim)
        to += box.local[dim] * contiguous_strides(shape)[dim];
      checkpoint.read(*tensor, box.whole, bytes.data() + to * tensor->type->bytes,
                      contiguous_strides(shape));
    }
    device.write(local, bytes.data());
  }
  return DTensor(local, spec);
}

DTensor load(const std::string& path, const std::string& name, const MeshLayout* mesh,
             const Placements& placements) {
  return load(Checkpoint::open(path), name, mesh, placements);
}

}  // namespace shardlab
