// Files of elements are read when a tensor is.
#include "sim/recording/exported_archive.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "sim/checkpoint/strided_bytes.h"
#include "sim/checkpoint/zip_archive.h"
#include "sim/recording/recorded_values.h"
#include "trace/graph_meshes.h"

namespace shardlab {

ExportedFiles open_exported(const FileBytes& bytes) {
  const ZipArchive archive(bytes);
  const std::string& path = bytes.path();
  ExportedFiles files{.path = path, .name = {}, .program = {}, .configs = {}, .elements = {}};
  std::string folder;
  for (const auto& [name, entry] : archive.files()) {
    const std::size_t models = name.find("models/");
    const bool program = name.ends_with(".json") && models != std::string::npos &&
                         name.find('/', models + 7) == std::string::npos;
    if (!program) continue;
    folder = name.substr(0, models);
    files.program = archive.text(name);
    files.name = name.substr(models + 7, name.size() - models - 7 - 5);
  }
  if (files.program.empty()) {
    const bool older = archive.files().contains("serialized_exported_program.json");
    fail(older ? ErrorKind::kUnsupported : ErrorKind::kValue,
         Fix{older ? "export it with PyTorch 2.8 or later" : std::string(kExportAgain)}, "{}: {}",
         path,
         older ? "the weights of this program are a pickle, which is not read"
               : "an archive, and no program of torch.export in it");
  }
  const std::string data = folder + "data/";
  for (const auto& [name, entry] : archive.files()) {
    if (name == folder + "byteorder" && archive.text(name) != "little") {
      fail(ErrorKind::kUnsupported, Fix{"export it on a machine of the other kind"},
           "{}: its elements are big-endian", path);
    }
    if (!name.starts_with(data)) continue;
    if (name.ends_with(files.name + "_weights_config.json") ||
        name.ends_with(files.name + "_constants_config.json")) {
      files.configs[name] = archive.text(name);
    } else {
      files.elements.emplace(name, archive.open(name));
    }
  }
  if (!folder.empty()) files.name = folder.substr(0, folder.size() - 1);
  return files;
}

DType exported_dtype(const JsonNode& number) {
  static const std::map<std::int64_t, DType> kDTypes = {
      {1, DType::kU8},    {2, DType::kI8},        {3, DType::kI16},   {4, DType::kI32},
      {5, DType::kI64},   {6, DType::kF16},       {7, DType::kF32},   {8, DType::kF64},
      {9, DType::kC32},   {10, DType::kC64},      {11, DType::kC128}, {12, DType::kBool},
      {13, DType::kBF16}, {29, DType::kF8E4M3FN}, {35, DType::kU64}};
  const auto found = kDTypes.find(number.integer());
  if (found != kDTypes.end()) return found->second;
  fail(ErrorKind::kUnsupported, Fix{"export it in another dtype"}, "dtype {} is not read",
       number.dump());
}

RecordedElements place_elements(const ExportedFiles& files, const std::string& file,
                                const ExportedTensor& tensor, std::string& raw) {
  const auto found = files.elements.find(file);
  if (found == files.elements.end()) {
    fail(Fix{"export the program again"}, "{} is not in the archive", file);
  }
  const StridedBytes stored{.bytes = found->second,
                            .item = item_bytes(tensor.meta.dtype),
                            .offset = tensor.offset,
                            .shape = tensor.meta.shape,
                            .stride = tensor.meta.stride};
  stored.check();
  RecordedElements elements{.stored = RecordedElements::Stored::kBytes};
  elements.bytes = static_cast<std::size_t>(product(stored.shape) * stored.item);
  if (elements.bytes == 0) return elements;
  elements.at = raw.size();
  raw.resize(elements.at + elements.bytes);
  stored.read({Dims(stored.shape.size(), 0), stored.shape}, raw.data() + elements.at,
              contiguous_strides(stored.shape));
  return elements;
}

// Numbers in shapes may be symbols, whose sizes are known when the tensors are read.

const JsonNode& only_member(const JsonNode& json) {
  const JsonNode* found = nullptr;
  for (const JsonNode& member : json) {
    if (member.is_null() && json.size() > 1) continue;  // older files write all members
    if (found != nullptr) fail(ErrorKind::kValue, "{} has two kinds", json.dump());
    found = &member;
  }
  if (found == nullptr) fail(ErrorKind::kValue, "{} has no kind", json.dump());
  return *found;
}

std::string_view name_in(const JsonNode& tensor) { return tensor.at("name").text(); }

std::string_view tensor_name(const JsonNode& argument) {
  const JsonNode* tensor = argument.find("as_tensor");
  return tensor == nullptr ? std::string_view() : name_in(*tensor);
}

double real_of(const JsonNode& number) {
  if (number.is_number()) return number.real();
  const std::string_view text = number.text();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "Infinity") return kInfinity;
  if (text == "-Infinity") return -kInfinity;
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  fail(ErrorKind::kValue, "{} is no number", number.dump());
}

ExportedTensors::ExportedTensors(const JsonNode& graph, ExportedSizes& sizes) : sizes_(sizes) {
  const JsonNode& described = graph.at("tensor_values");
  described_.reserve(described.size());
  for (const JsonNode& one : described) described_.emplace(one.key(), &one);
}

const JsonNode& ExportedTensors::meta_of(std::string_view name) const {
  const auto found = described_.find(name);
  if (found == described_.end()) {
    fail(ErrorKind::kValue, "the tensor '{}' is not described", name);
  }
  return *found->second;
}

ExportedTensor ExportedTensors::read(const JsonNode& meta) {
  ExportedTensor tensor;
  tensor.meta.dtype = exported_dtype(meta.at("dtype"));
  for (const JsonNode& size : meta.at("sizes")) tensor.meta.shape.push_back(sizes_.of(size));
  if (!fits_in_memory(tensor.meta)) {
    fail(ErrorKind::kValue, "{} is no shape", meta.at("sizes").dump());
  }
  for (const JsonNode& stride : meta.at("strides")) {
    tensor.meta.stride.push_back(sizes_.of(stride));
  }
  const bool backwards = std::ranges::any_of(tensor.meta.stride, [](auto one) { return one < 0; });
  if (backwards || tensor.meta.stride.size() != tensor.meta.shape.size()) {
    fail(ErrorKind::kValue, "{} are no strides", meta.at("strides").dump());
  }
  const JsonNode* offset = meta.find("storage_offset");
  tensor.offset = offset != nullptr ? sizes_.of(*offset) : 0;
  return tensor;
}

ValueType ExportedTensors::type_of(std::string_view name) {
  constexpr std::int64_t kStrided = 7;
  const JsonNode& meta = meta_of(name);
  if (meta.at("layout").integer() != kStrided) {
    fail(ErrorKind::kUnsupported, Fix{"make it dense: x.to_dense()"}, "'{}' is a sparse tensor",
         name);
  }
  return plain_type(read(meta).meta);
}

}  // namespace shardlab
