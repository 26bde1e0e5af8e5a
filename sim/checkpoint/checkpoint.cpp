// Formats are told apart by what is there, not by names alone; the reader of each adds pieces, and
// nothing here asks for the format again.
#include "sim/checkpoint/checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "sim/checkpoint/checkpoint_reader.h"
#include "tensor/tensor.h"

namespace shardlab {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kIndex = ".index.json", kMetadata = ".metadata";

std::string plain_name(std::string_view name) { return escaped_text(name, "\\x{:02x}"); }

struct Format {
  const char* name;
  bool (*fits)(const FileBytes& bytes, const std::string& begin);
  void (*read)(CheckpointReader& reader, std::size_t file, WantedNames wanted);
};

const Format* format_of(const FileBytes& bytes) {
  static constexpr Format kFormats[] = {
      {".npy", [](auto&, auto& begin) { return begin.starts_with("\x93NUMPY"); }, read_npy},
      {"torch.save",
       [](auto&, auto& begin) {
         return ZipArchive::begins(begin) || begin.starts_with("\x80\x02\x8a\x0a");
       },
       read_torch},
      {"safetensors", [](auto& bytes, auto&) { return is_safetensors(bytes); }, read_safetensors}};
  const std::string begin = bytes.text(0, std::min<std::uint64_t>(bytes.size(), 16));
  for (const Format& format : kFormats) {
    if (format.fits(bytes, begin)) return &format;
  }
  return nullptr;
}

void read_file(CheckpointReader& reader, const std::string& name, WantedNames wanted) {
  const std::size_t file = reader.add_file(name);
  const FileBytes bytes = reader.open(file);
  const Format* format = format_of(bytes);
  if (format == nullptr) {
    bytes.refuse("no checkpoint: neither safetensors, .npy nor a file of torch.save",
                 "give such a file, or the folder of a distributed checkpoint");
  }
  reader.set_format(format->name);
  format->read(reader, file, wanted);
}

bool is_weights(const std::string& name) {
  constexpr std::string_view kEndings[] = {".safetensors", ".npy", ".pt", ".pth", ".bin"};
  return std::ranges::any_of(kEndings, [&](std::string_view end) { return name.ends_with(end); });
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file()) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

void read_indexed(CheckpointReader& reader, const std::string& folder, const std::string& index) {
  const FileBytes bytes = reader.open(reader.add_file(index));
  const auto names = read_index(bytes);
  for (const auto& [file, wanted] : names) {
    if (!fs::exists(folder + file)) {
      bytes.refuse(fmt::format("{}, in which it has {} tensors, is not there", plain_name(file),
                               wanted.size()),
                   "get all files of the checkpoint");
    }
    read_file(reader, file, &wanted);
    for (const std::string& name : wanted) {
      if (!reader.has(name))
        reader.note(fmt::format("'{}' is not in {}, where the index has it", plain_name(name),
                                plain_name(file)));
    }
  }
  for (const std::string& name : names_in(folder)) {
    if (is_weights(name) && !names.contains(name)) {
      reader.note(fmt::format("{} is not read: the index does not name it", name));
    }
  }
}

// A folder's own list of its files, or all of those that may be weights.
void read_folder(CheckpointReader& reader, const std::string& folder) {
  std::vector<std::string> indexes, weights;
  for (const std::string& name : names_in(folder)) {
    if (name == kMetadata) return read_distributed(reader);
    if (name.ends_with(kIndex)) indexes.push_back(name);
    if (is_weights(name)) weights.push_back(name);
  }
  if (indexes.size() == 1) return read_indexed(reader, folder, indexes[0]);
  if (!indexes.empty() || weights.empty()) {
    fail(Fix{indexes.empty() ? "give a file, or a folder of safetensors, .npy or DCP"
                             : "name the one that is meant"},
         "{}: {}", folder,
         indexes.empty() ? "no checkpoint in it" : "indexes " + text_of_list(indexes, ", "));
  }
  for (const std::string& name : weights) read_file(reader, name, nullptr);
}

// The parts of a hole that a piece does not fill.
void subtract(const Box& hole, const Box& piece, std::vector<Box>& left) {
  const Box common = common_part(hole, piece);
  if (product(common.shape) == 0) return left.push_back(hole);
  Box rest = hole;
  for (std::size_t dim = 0; dim < rest.from.size(); ++dim) {
    const std::int64_t begin = common.from[dim], end = begin + common.shape[dim];
    Box side = rest;
    side.shape[dim] = begin - rest.from[dim];
    if (product(side.shape) > 0) left.push_back(side);
    side.from[dim] = end;
    side.shape[dim] = rest.from[dim] + rest.shape[dim] - end;
    if (product(side.shape) > 0) left.push_back(side);
    rest.from[dim] = begin;
    rest.shape[dim] = common.shape[dim];
  }
}

}  // namespace

// ---- the reader ----

std::size_t CheckpointReader::add_file(const std::string& name) {
  const fs::path path = fs::path(name).lexically_normal();
  if (name.empty() || path.is_absolute() || *path.begin() == "..") {
    fail(Fix{"keep the files of a checkpoint in its folder"},
         "{}: it names the file '{}', which is not in its folder", out_.path_, plain_name(name));
  }
  const auto known = std::ranges::find(out_.files_, name);
  if (known != out_.files_.end()) return static_cast<std::size_t>(known - out_.files_.begin());
  out_.files_.push_back(name);
  return out_.files_.size() - 1;
}

bool CheckpointReader::has(const std::string& name) const { return out_.by_name_.contains(name); }

StoredTensor& CheckpointReader::add(const std::string& name, const StoredType* type,
                                    std::string_view type_name, const Dims& shape) {
  const auto [found, fresh] = out_.by_name_.emplace(name, out_.tensors_.size());
  if (fresh) {
    out_.tensors_.push_back({.name = name,
                             .type = type,
                             .type_name = std::string(type_name),
                             .shape = shape,
                             .pieces = {}});
  }
  StoredTensor& tensor = out_.tensors_[found->second];
  const bool same = tensor.type == type && tensor.shape.size() == shape.size();
  bool fits = type == nullptr || product(Dims{product(shape), type->bytes}) < INT64_MAX;
  if (!same || !fits) {
    fail(Fix{"write the files again"}, "{}: pieces of '{}' are {}[{}] and {}[{}]", out_.path_,
         plain_name(name), tensor.type_name, text_of_list(tensor.shape, ", "), type_name,
         text_of_list(shape, ", "));
  }
  return tensor;
}

void CheckpointReader::add(const std::string& name, const StoredType* type,
                           std::string_view type_name, const StoredPiece& piece) {
  Dims shape = piece.box.shape;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    shape[dim] = __builtin_add_overflow(shape[dim], piece.box.from[dim], &shape[dim]) ? INT64_MAX
                                                                                      : shape[dim];
  }
  StoredTensor& tensor = add(name, type, type_name, shape);
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    tensor.shape[dim] = std::max(tensor.shape[dim], shape[dim]);
  }
  tensor.pieces.push_back(piece);
}

// ---- the checkpoint ----

std::string StoredTensor::text() const {
  return fmt::format("{}[{}]", type == nullptr ? plain_name(type_name) : type->name,
                     text_of_list(shape, ", "));
}

Checkpoint Checkpoint::open(const std::string& path) {
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  if (fs::is_directory(path)) {
    const std::string folder = path.ends_with('/') ? path : path + "/";
    CheckpointReader reader(checkpoint, folder);
    read_folder(reader, folder);
    return checkpoint;
  }
  const std::size_t name = path.rfind('/') + 1;
  CheckpointReader reader(checkpoint, path.substr(0, name));
  if (path.ends_with(kIndex)) {
    read_indexed(reader, path.substr(0, name), path.substr(name));
  } else {
    read_file(reader, path.substr(name), nullptr);
  }
  return checkpoint;
}

bool Checkpoint::is_one(const std::string& path) {
  std::error_code fault;
  if (!fs::is_directory(path, fault)) {
    return fs::is_regular_file(path, fault) &&
           (path.ends_with(kIndex) || format_of(FileBytes::open(path)) != nullptr);
  }
  return std::ranges::any_of(names_in(path), [](const std::string& name) {
    return name == kMetadata || name.ends_with(kIndex) || is_weights(name);
  });
}

FileBytes Checkpoint::file(std::size_t index) const {
  return FileBytes::open(folder_ + files_[index]);
}

const StoredTensor* Checkpoint::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

StridedBytes Checkpoint::elements_of(const StoredTensor& tensor, const StoredPiece& piece) const {
  const FileBytes bytes = file(piece.file).part(piece.begin, piece.length);
  if (piece.packed) {
    const TorchFile file(bytes, PickleRules::Others::kRefused);
    const auto [type, name, elements] = file.tensor(file.root());
    if (type == tensor.type && elements.shape == piece.box.shape) return elements;
    bytes.refuse(fmt::format("the piece of '{}' at byte {} has another type than .metadata says",
                             plain_name(tensor.name), piece.begin));
  }
  StridedBytes elements{
      .bytes = bytes, .item = tensor.type->bytes, .shape = piece.box.shape, .stride = piece.stride};
  if (piece.stride.empty()) elements.stride = contiguous_strides(piece.box.shape);
  elements.check();
  return elements;
}

void Checkpoint::read(const StoredTensor& tensor, const Box& part, char* out,
                      std::size_t last) const {
  const auto bytes = product(part.shape) * (tensor.type == nullptr ? 0 : tensor.type->bytes);
  if (tensor.pieces.size() != 1) std::memset(out, 0, static_cast<std::size_t>(bytes));
  read(tensor, part, out, contiguous_strides(part.shape), last);
}

void Checkpoint::read(const StoredTensor& tensor, const Box& part, char* out, const Dims& stride,
                      std::size_t last) const {
  if (tensor.type == nullptr) {
    fail(ErrorKind::kUnsupported,
         Fix{"leave it out, or save it in another dtype, x.resolve_conj() of a lazy one"},
         "{}: '{}' has the dtype {}, which is not read", path_, plain_name(tensor.name),
         plain_name(tensor.type_name));
  }
  // The first one counts, unless another is asked for.
  const std::size_t count = tensor.pieces.size();
  for (std::size_t i = last == 0 ? count : count + 1; i-- > 0;) {
    const StoredPiece& piece = tensor.pieces[last == 0 ? i : i == 0 ? last : i - 1];
    Box common = common_part(part, piece.box);
    if (product(common.shape) == 0) continue;
    std::int64_t to = 0;
    for (std::size_t dim = 0; dim < stride.size(); ++dim) {
      to += (common.from[dim] - part.from[dim]) * stride[dim];
      common.from[dim] -= piece.box.from[dim];
    }
    elements_of(tensor, piece).read(common, out + to * tensor.type->bytes, stride);
  }
}

void Checkpoint::check_whole(const StoredTensor& tensor) const {
  const std::vector<PieceFault> faults = faults_of(tensor, 1);
  if (faults.empty() || !faults[0].pieces.empty()) return;
  fail(Fix{fmt::format("shardlab show {} --tensor {}", path_, tensor.name)},
       "{}: no piece has all of '{}'", path_, plain_name(tensor.name));
}

std::string Checkpoint::print(const StoredObject& object) const {
  constexpr std::size_t kMost = 1 << 16;
  if (!object.text.empty()) return object.text;
  const FileBytes bytes = file(object.file).part(object.begin, object.length);
  const TorchFile torch(bytes, PickleRules::Others::kInert);
  if (torch.is_plain()) return torch.root().print(kMost);
  const PickleValue root = torch.root();
  return fmt::format("an object{}, {} bytes, sum {:016x}",
                     root.is(PickleKind::kRecord) ? fmt::format(" of class {}", root.type()) : "",
                     bytes.size(), torch.sum());
}

std::int64_t Checkpoint::rank_of(std::size_t file) const {
  const std::string& name = files_[file];
  std::int64_t rank = -1;
  if (std::sscanf(name.c_str(), "__%ld_", &rank) == 1) return rank;
  return std::sscanf(name.c_str(), "shard-%ld-", &rank) == 1 ? rank - 1 : -1;
}

std::vector<PieceFault> faults_of(const StoredTensor& tensor, std::size_t most) {
  constexpr std::size_t kMostHoles = 4096;
  std::vector<PieceFault> faults;
  std::vector<std::size_t> order(tensor.pieces.size());
  std::iota(order.begin(), order.end(), 0);
  // In this order there are few holes at a time, and only pieces that begin before one ends can be
  // over it.
  std::ranges::stable_sort(order, std::ranges::lexicographical_compare,
                           [&](std::size_t i) -> const Dims& { return tensor.pieces[i].box.from; });
  std::vector<Box> holes;
  if (tensor.count() > 0) holes.push_back({Dims(tensor.shape.size()), tensor.shape});
  for (const std::size_t i : order) {
    std::vector<Box> left;
    for (const Box& hole : holes) subtract(hole, tensor.pieces[i].box, left);
    holes = std::move(left);
    if (holes.size() > kMostHoles) break;
  }
  for (std::size_t i = 0; i < std::min(most, holes.size()); ++i) faults.push_back({holes[i], {}});
  std::size_t found = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Box& box = tensor.pieces[order[i]].box;
    for (std::size_t k = i + 1; k < order.size() && found < most; ++k) {
      const Box& other = tensor.pieces[order[k]].box;
      if (!box.from.empty() && other.from[0] >= box.from[0] + box.shape[0]) break;
      const Box common = common_part(box, other);
      if (product(common.shape) == 0) continue;
      faults.push_back({common, {order[i], order[k]}});
      ++found;
    }
  }
  return faults;
}

}  // namespace shardlab
