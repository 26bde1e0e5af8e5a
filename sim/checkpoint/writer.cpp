// Sizes are known before elements are: headers come first, and the elements of a tensor then go to
// their places in all files while it is in memory.
#include "sim/checkpoint/writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "mesh/local_shape.h"
#include "tensor/tensor.h"

extern template class nlohmann::basic_json<>;

namespace shardlab {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

void put(const std::string& path, std::int64_t at, std::string_view bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  ssize_t put = file < 0 ? -1 : 0;
  while (put >= 0 && !bytes.empty()) {
    put = pwrite(file, bytes.data(), bytes.size(), at);
    if (put < 0 && errno == EINTR) put = 0;
    bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(put, 0)));
    at += put;
  }
  const int fault = errno;
  if (file >= 0) close(file);
  if (put >= 0) return;
  fail(ErrorKind::kRuntime, Fix{"give a path that can be written, with room for it"},
       "{} cannot be written: {}", path, std::strerror(fault));
}

// A part of a tensor in a file.
struct Part {
  std::size_t tensor;
  Box box;
};

class Writer {
 public:
  Writer(const MadeTensors& tensors, const WriteOptions& options)
      : tensors_(tensors), options_(options), places_(tensors.size()) {
    for (const MadeTensor& tensor : tensors) {
      all_ += tensor.bytes();
      if (tensor.type != nullptr && !tensor.type->safetensors.empty()) continue;
      fail(ErrorKind::kUnsupported, Fix{"leave it out: --drop NAME"},
           "{} has a dtype that is not read, or that safetensors does not have", tensor.text());
    }
  }

  // `path`: the file itself if it is the only one, or a folder.
  std::vector<std::string> write(const std::string& path, bool one_file) {
    options_.mesh != nullptr ? plan_ranks() : plan_files(one_file);
    if (!one_file) fs::create_directories(path);
    std::vector<std::string> names;
    Json index = {{"metadata", {{"total_size", all_}}}, {"weight_map", Json::object()}};
    for (auto& [name, parts] : files_) {
      write_header(one_file ? path : path + "/" + name, parts);
      for (const Part& part : parts) index["weight_map"][tensors_[part.tensor].name] = name;
      names.push_back(name);
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) write_elements(i);
    if (options_.mesh == nullptr && files_.size() > 1) {
      names.emplace_back("model.safetensors.index.json");
      put(path + "/" + names.back(), 0, index.dump(1));
    }
    return names;
  }

 private:
  static std::string numbered(std::string_view name, std::size_t number, std::size_t count) {
    return fmt::format("{}model-{:05}-of-{:05}.safetensors", name, number, count);
  }

  void plan_files(bool one_file) {
    std::vector<std::vector<Part>> files(1);
    std::int64_t held = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (held > 0 && held + tensors_[i].bytes() > options_.most_bytes && !one_file) {
        files.emplace_back();
        held = 0;
      }
      held += tensors_[i].bytes();
      files.back().push_back({i, {Dims(tensors_[i].shape.size()), tensors_[i].shape}});
    }
    const std::size_t count = files.size();
    for (std::size_t k = 0; k < count; ++k) {
      files_[count == 1 ? "model.safetensors" : numbered("", k + 1, count)] = std::move(files[k]);
    }
  }

  // A file has a name once: further boxes of a rank are in further files of it.
  void plan_ranks() {
    std::size_t most = 1;
    std::map<std::pair<std::int64_t, std::size_t>, std::vector<Part>> files;
    for (std::int64_t rank = 0; rank < options_.mesh->size(); ++rank) {
      files[{rank, 0}];
      for (std::size_t i = 0; i < tensors_.size(); ++i) {
        std::size_t box = 0;
        for (HeldBox& own :
             boxes_of(*options_.placed(i), options_.mesh->coordinate_at_index(rank))) {
          files[{rank, box++}].push_back({i, std::move(own.whole)});
        }
        most = std::max(most, box);
      }
    }
    for (auto& [place, parts] : files) {
      const std::string rank = fmt::format("shard-{:05}-", place.first + 1);
      files_[numbered(rank, place.second + 1, most)] = std::move(parts);
    }
  }

  void write_header(const std::string& path, std::vector<Part>& parts) {
    // Wider elements first, so that all are at multiples of their size.
    std::ranges::stable_sort(parts, std::greater(),
                             [&](const Part& part) { return tensors_[part.tensor].item(); });
    Json header = {{"__metadata__", {{"format", "pt"}}}}, offsets = Json::object();
    std::vector<std::int64_t> ends = {0};
    for (const Part& part : parts) {
      const MadeTensor& tensor = tensors_[part.tensor];
      ends.push_back(ends.back() + product(part.box.shape) * tensor.item());
      header[tensor.name] = {{"dtype", tensor.type->safetensors},
                             {"shape", part.box.shape},
                             {"data_offsets", {ends.end()[-2], ends.back()}}};
      const Dims& from = options_.offsets.empty() ? part.box.from : options_.offsets[part.tensor];
      offsets[tensor.name] = {{"saved_offsets", from}};
    }
    if (options_.mesh != nullptr || !options_.offsets.empty()) {
      header["__metadata__"]["DCP_VERSION"] = "1.0";
      header["__metadata__"]["DCP_SHARDING_INFO"] =
          offsets.dump(-1, ' ', false, Json::error_handler_t::replace);
    }
    std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const std::uint64_t size = text.size();
    text.insert(0, reinterpret_cast<const char*>(&size), sizeof size);
    put(path, 0, text);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto begin = static_cast<std::int64_t>(text.size()) + ends[i];
      places_[parts[i].tensor].push_back({path, parts[i].box, begin});
    }
  }

  void write_elements(std::size_t index) {
    const MadeTensor& tensor = tensors_[index];
    const std::vector<Place>& places = places_[index];
    if (places.size() == 1 && places[0].box.shape == tensor.shape) {
      std::int64_t at = places[0].begin;
      for_blocks(tensor, [&](std::string_view block) {
        put(places[0].path, at, block);
        at += static_cast<std::int64_t>(block.size());
        return true;
      });
    } else {
      const StridedBytes whole{.bytes = FileBytes(tensor.name, tensor.elements()),
                               .item = tensor.item(),
                               .shape = tensor.shape,
                               .stride = contiguous_strides(tensor.shape)};
      for (const Place& place : places) {
        std::string part(static_cast<std::size_t>(product(place.box.shape) * tensor.item()), '\0');
        whole.read(place.box, part.data(), contiguous_strides(place.box.shape));
        put(place.path, place.begin, part);
      }
    }
    done_ += tensor.bytes();
    if (options_.progress) options_.progress(done_, all_);
  }

  struct Place {
    std::string path;
    Box box;
    std::int64_t begin;
  };

  const MadeTensors& tensors_;
  const WriteOptions& options_;
  std::map<std::string, std::vector<Part>> files_;
  std::vector<std::vector<Place>> places_;  // by tensor
  std::int64_t done_ = 0, all_ = 0;
};

// Nothing but our own files is removed.
void check_replaced(const std::string& path) {
  if (!fs::is_directory(path)) return;
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")) continue;
    fail(Fix{"give another folder, or remove it yourself"},
         "{} has {}, which is no part of a checkpoint of safetensors", path, name);
  }
}

}  // namespace

std::vector<HeldBox> boxes_of(const DTensorSpec& spec, const Coordinate& coordinate,
                              Replicas replicas) {
  bool first = true, origin = true;
  for (std::size_t dim = 0; dim < coordinate.size(); ++dim) {
    origin &= coordinate[dim] == 0;
    first &= !spec.placement(dim).is_replicate() || coordinate[dim] == 0;
  }
  if (replicas == Replicas::kFirst && !first) return {};
  // Nothing is cut of nothing: the first rank has it.
  if (spec.numel() == 0) {
    const HeldBox whole{{Dims(spec.ndim()), spec.shape()}, Dims(spec.ndim())};
    return origin ? std::vector{whole} : std::vector<HeldBox>();
  }
  std::vector<HeldBox> boxes(1);
  for (const DimMap& map : local_view(spec, coordinate).dims) {
    std::vector<HeldBox> longer;
    for (const HeldBox& box : boxes) {
      std::int64_t local = 0;
      for (const IndexRun& run : map.runs) {
        longer.push_back(box);
        longer.back().whole.from.push_back(run.offset);
        longer.back().whole.shape.push_back(run.size);
        longer.back().local.push_back(local);
        local += run.size;
      }
    }
    boxes = std::move(longer);
  }
  return boxes;
}

std::vector<std::string> write_tensors(const std::string& path, const MadeTensors& tensors,
                                       const WriteOptions& options) {
  if (fs::exists(path) && !options.replace) {
    fail(Fix{"--force replaces it"}, "{} is there already", path);
  }
  check_replaced(path);
  const std::string beside = path.substr(0, path.find_last_not_of('/') + 1) + ".partial";
  try {
    fs::remove_all(beside);
    const bool one_file = path.ends_with(".safetensors") && options.mesh == nullptr;
    std::vector<std::string> names = Writer(tensors, options).write(beside, one_file);
    fs::remove_all(path);
    fs::rename(beside, path);
    return names;
  } catch (const fs::filesystem_error& error) {
    std::error_code ignored;
    fs::remove_all(beside, ignored);
    fail(ErrorKind::kRuntime, Fix{"give a path that can be written, with room for it"},
         "{} cannot be written: {}", path, error.code().message());
  } catch (...) {
    fs::remove_all(beside);
    throw;
  }
}

}  // namespace shardlab
