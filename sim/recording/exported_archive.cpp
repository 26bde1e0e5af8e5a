// Files of elements are read when a tensor is.
#include "sim/recording/exported_archive.h"

#include "base/fix.h"
#include "sim/checkpoint/strided_bytes.h"
#include "sim/checkpoint/zip_archive.h"

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

}  // namespace shardlab
