// torch.save writes protocol 2 of pickle; what is a tensor in it is a call of a function that
// rebuilds one from a storage, which is named by a persistent id.
#include "sim/checkpoint/torch_file.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"

namespace shardlab {

namespace {

constexpr std::string_view kRebuild = "torch._utils _rebuild_tensor_v",
                           kParameter = "torch._utils _rebuild_parameter", kTorch = "torch ";
constexpr std::size_t npos = std::string_view::npos;

std::string folder_of(const FileBytes& bytes, const ZipArchive& archive) {
  constexpr std::string_view kPickle = "data.pkl";
  for (const auto& [name, entry] : archive.files()) {
    if (name == kPickle || name.ends_with("/data.pkl")) {
      return name.substr(0, name.size() - kPickle.size());
    }
  }
  bytes.refuse("an archive, and not one of torch.save: it has no data.pkl",
               "give a file that torch.save wrote");
}

const FileBytes& checked(const FileBytes& bytes) {
  const std::string begin = bytes.text(0, std::min<std::uint64_t>(bytes.size(), 16));
  if (ZipArchive::begins(begin)) return bytes;
  // The magic number 0x1950a86a20f9469cfc6c as a pickle.
  constexpr std::string_view kOlder("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19", 14);
  if (!begin.starts_with(kOlder)) {
    fail(Fix{"give a file that torch.save wrote"}, "{}: no file of torch.save", bytes.path());
  }
  fail(ErrorKind::kUnsupported, Fix{"load and save it again with PyTorch 1.6 or later"},
       "{}: a file of torch.save without an archive, as PyTorch wrote it before 1.6", bytes.path());
}

}  // namespace

bool is_torch_class(std::string_view type) {
  constexpr std::pair<std::string_view, std::string_view> kClasses[] = {
      {"torch.distributed.checkpoint.metadata ",
       " Metadata TensorStorageMetadata TensorProperties ChunkStorageMetadata BytesStorageMetadata "
       "MetadataIndex StorageMeta _MEM_FORMAT_ENCODING "},
      {"torch.distributed.checkpoint.filesystem ", " _StorageInfo "},
      {"torch.serialization ", " _get_layout "},
      {"torch.storage ", " UntypedStorage "},
      {"torch._utils ", " _rebuild_tensor_v2 _rebuild_tensor_v3 _rebuild_parameter "},
      {"pathlib ", " PosixPath WindowsPath "},
      {"collections ", " OrderedDict "},
      {kTorch, " Size "}};
  const std::string_view name = type.substr(type.find(' ') + 1);
  for (const auto& [module, names] : kClasses) {
    if (type == fmt::format("{}{}", module, name) && names.find(fmt::format(" {} ", name)) != npos)
      return true;
  }
  return type.starts_with(kTorch) && (stored_type(&StoredType::torch, name) != nullptr ||
                                      stored_type(&StoredType::storage, name) != nullptr);
}

const StoredType* dtype_of(PickleValue value) {
  if (!value.is(PickleKind::kClass)) value.refuse("a dtype is expected");
  const std::string_view type = value.type();
  return type.starts_with(kTorch) ? stored_type(&StoredType::torch, type.substr(kTorch.size()))
                                  : nullptr;
}

Dims dims_of(PickleValue value) {
  constexpr std::size_t kMost = 64;
  if (value.is(PickleKind::kRecord)) value = value.arguments().at(std::size_t{0});
  if (value.size() > kMost) value.refuse("at most 64 dims are expected");
  Dims dims;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value.at(i).integer() < 0) value.refuse("sizes of at least 0 are expected");
    dims.push_back(value.at(i).integer());
  }
  return dims;
}

TorchFile::TorchFile(const FileBytes& bytes, PickleRules::Others others)
    : archive_(checked(bytes)),
      folder_(folder_of(bytes, archive_)),
      pickle_(Pickle::read(bytes.path(), archive_.text(folder_ + "data.pkl"),
                           {.knows = is_torch_class, .others = others})) {
  const std::string order = folder_ + "byteorder";
  if (archive_.files().contains(order) && archive_.text(order) != "little") {
    fail(ErrorKind::kUnsupported, Fix{"save it on a machine of the other kind"},
         "{}: its elements are big-endian", bytes.path());
  }
}

bool TorchFile::is_plain() const {
  const auto storage = archive_.files().lower_bound(folder_ + "data/");
  return !pickle_.has_others() &&
         (storage == archive_.files().end() || !storage->first.starts_with(folder_ + "data/"));
}

std::uint64_t TorchFile::sum() const {
  std::uint64_t sum = 0;
  for (const auto& [name, entry] : archive_.files()) {
    if (name == folder_ + "data.pkl" || name.starts_with(folder_ + "data/")) {
      sum = hash_text(sum, archive_.text(name));
    }
  }
  return sum;
}

bool TorchFile::is_tensor(PickleValue value) {
  return value.is(PickleKind::kRecord) && value.known() &&
         (value.type().starts_with(kRebuild) || value.type() == kParameter);
}

TorchFile::Tensor TorchFile::tensor(PickleValue value) const {
  if (!is_tensor(value)) value.refuse("a tensor is expected");
  if (value.type() == kParameter) value = value.arguments().at(std::size_t{0});
  const PickleValue given = value.arguments();
  if (!is_tensor(value) || given.size() < 6) value.refuse("a tensor is expected");
  const PickleValue id = given.at(std::size_t{0}).arguments();
  if (!given.at(std::size_t{0}).is(PickleKind::kStored) || id.size() != 5) {
    value.refuse("a storage is expected");
  }
  const bool untyped = value.type().ends_with("3");
  const std::string_view storage = id.at(1).type();
  const StoredType* type =
      untyped ? dtype_of(given.at(6))
              : stored_type(&StoredType::storage, storage.substr(storage.find(' ') + 1));
  const std::string_view name = untyped ? given.at(6).type() : storage;
  Tensor tensor{type,
                std::string(name.substr(name.find(' ') + 1)),
                {.bytes = archive_.stored(folder_ + "data/" + std::string(id.at(2).text())),
                 .item = type == nullptr ? 1 : type->bytes,
                 .offset = given.at(1).integer(),
                 .shape = dims_of(given.at(2)),
                 .stride = dims_of(given.at(3))}};
  if (type == nullptr) return tensor;
  tensor.elements.check();
  const std::size_t facts = untyped ? 7 : 6;
  if (given.size() > facts && given.at(facts).is(PickleKind::kDict)) {
    for (const char* const bit : {"conj", "neg"}) {
      const auto set = given.at(facts).find(bit);
      const bool lazy = set && set->is(PickleKind::kBool) && set->integer() != 0;
      if (lazy) tensor.type_name = fmt::format("lazily conjugated or negated {}", type->torch);
      if (lazy) tensor.type = nullptr;
    }
  }
  return tensor;
}

}  // namespace shardlab
