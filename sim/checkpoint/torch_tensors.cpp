// Names in the nested dicts and lists of a file of torch.save are joined by dots, as DCP does it.
// Its .metadata is a pickle of records: the state of an object is a dict of its fields, or a tuple
// of them where its class says so.
#include "base/error.h"
#include "base/text.h"
#include "sim/checkpoint/checkpoint_reader.h"

namespace shardlab {

namespace {

bool is_list(PickleValue value) {
  return value.is(PickleKind::kList) || value.is(PickleKind::kTuple);
}

// Not a list of numbers and texts, which is one object.
bool has_parts(PickleValue value) {
  if (value.is(PickleKind::kDict)) return value.size() > 0;
  if (!is_list(value)) return false;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const PickleValue part = value.at(i);
    if (TorchFile::is_tensor(part) || part.is(PickleKind::kDict) || is_list(part)) return true;
  }
  return false;
}

struct TorchReader {
  void visit(const std::string& name, PickleValue value, int depth) {
    constexpr int kDeepest = 64;
    constexpr std::size_t kText = 1 << 16, kFree = 32 << 20;
    if (TorchFile::is_tensor(value)) {
      if (!tensors.insert(name).second) {
        fail(Fix{"give one of them another name"},
             "{}: two tensors are called '{}', as parts are joined by dots", bytes.path(),
             escaped_text(name, "\\x{:02x}"));
      }
      if (wanted == nullptr || wanted->contains(name)) add(name, file.tensor(value));
    } else if (!has_parts(value)) {
      reader.add(StoredObject{.name = name, .text = value.print(kText)});
      held += value.print(kText).size();
    } else {
      for (std::size_t i = 0; i < value.size(); ++i) {
        std::string part = fmt::format("{}", i);
        if (value.is(PickleKind::kDict)) {
          const PickleValue key = value.key(i);
          part = key.is(PickleKind::kText) ? std::string(key.text()) : key.print();
        }
        // A value may be a part of many others, and of itself.
        held += name.size() + part.size() + sizeof(StoredTensor);
        if (depth > kDeepest || held > 3 * bytes.size() + kFree) {
          value.refuse("values have each other as parts");
        }
        visit(name.empty() ? part : fmt::format("{}.{}", name, part), value.at(i), depth + 1);
      }
    }
  }

  void add(const std::string& name, const TorchFile::Tensor& tensor) {
    const StridedBytes& elements = tensor.elements;
    const auto first =
        tensor.type == nullptr ? 0 : static_cast<std::uint64_t>(elements.offset * elements.item);
    reader.add(name, tensor.type, tensor.type_name,
               StoredPiece{.box = {Dims(elements.shape.size()), elements.shape},
                           .file = index,
                           .begin = elements.bytes.begin() + first,
                           .length = elements.bytes.size() - first,
                           .stride = elements.stride});
  }

  CheckpointReader& reader;
  std::size_t index;
  WantedNames wanted;
  FileBytes bytes = reader.open(index);
  TorchFile file = {bytes, PickleRules::Others::kInert};
  std::set<std::string> tensors = {};  // their names so far
  std::size_t held = 0;                // by names and texts
};

}  // namespace

void read_torch(CheckpointReader& reader, std::size_t file, WantedNames wanted) {
  TorchReader torch{reader, file, wanted};
  const std::string path = torch.bytes.path().substr(torch.bytes.path().rfind('/') + 1);
  const PickleValue root = torch.file.root();
  torch.visit(has_parts(root) ? "" : path.substr(0, path.rfind('.')), root, 0);
}

namespace {

struct Place {
  std::size_t file;
  std::uint64_t begin, length;
};

struct DistributedReader {
  static std::string key_of(std::string_view name, const Dims& offset) {
    return fmt::format("{} [{}]", name, text_of_list(offset, ", "));
  }

  void add_place(PickleValue index, PickleValue info) {
    const auto transforms = info.find("transform_descriptors");
    if (transforms && !transforms->is(PickleKind::kNone) && transforms->size() > 0) {
      fail(ErrorKind::kUnsupported, Fix{"save it without transforms, as compression"},
           "{}: '{}' is stored with transforms", path, index.at("fqn").text());
    }
    const std::string name(info.at("relative_path").text());
    const auto file = files.try_emplace(name, 0);
    if (file.second) file.first->second = reader.add_file(name);
    const std::int64_t begin = info.at("offset").integer(), length = info.at("length").integer();
    if (begin < 0 || length < 0) info.refuse("a place in a file is expected");
    const auto offset = index.find("offset");
    const bool whole = !offset || offset->is(PickleKind::kNone);
    places[key_of(index.at("fqn").text(), whole ? Dims{} : dims_of(*offset))] = {
        file.first->second, static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(length)};
  }

  void add_object(const std::string& name) {
    const auto place = places.find(key_of(name, {}));
    if (place == places.end()) {
      reader.note(fmt::format("'{}', an object, is stored nowhere", name));
      return;
    }
    const auto& [file, begin, length] = place->second;
    reader.add(StoredObject{.name = name, .file = file, .begin = begin, .length = length});
  }

  void add_tensor(const std::string& name, PickleValue value) {
    const PickleValue properties = value.at("properties");
    const auto state = properties.state();
    const bool fields = !state || state->is(PickleKind::kDict);
    const PickleValue dtype = fields ? properties.at("dtype") : state->at(std::size_t{0});
    const Dims shape = dims_of(value.at("size"));
    const PickleValue chunks = value.at("chunks");
    StoredTensor& tensor = reader.add(name, dtype_of(dtype), dtype.type(), shape);
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const Box box{dims_of(chunks.at(i).at("offsets")), dims_of(chunks.at(i).at("sizes"))};
      bool inside = box.from.size() == shape.size() && box.shape.size() == shape.size();
      for (std::size_t dim = 0; inside && dim < shape.size(); ++dim) {
        inside = box.from[dim] <= shape[dim] && box.shape[dim] <= shape[dim] - box.from[dim];
      }
      if (!inside) chunks.at(i).refuse("a piece inside of its tensor is expected");
      const auto place = places.find(key_of(name, box.from));
      if (place == places.end()) {
        reader.note(fmt::format("'{}': its piece at [{}] is stored nowhere", name,
                                text_of_list(box.from, ", ")));
        continue;
      }
      const auto& [file, begin, length] = place->second;
      tensor.pieces.push_back(
          {.box = box, .file = file, .begin = begin, .length = length, .packed = true});
    }
  }

  CheckpointReader& reader;
  std::string path;
  std::map<std::string, std::size_t> files = {};
  std::map<std::string, Place> places = {};  // by name and offset
};

}  // namespace

void read_distributed(CheckpointReader& reader) {
  reader.set_format("DCP");
  const FileBytes metadata = reader.open(reader.add_file(".metadata"));
  const Pickle pickle =
      Pickle::read(metadata.path(), metadata.text(0, metadata.size()), {.knows = is_torch_class});
  const PickleValue stored = pickle.root().at("storage_data"),
                    tensors = pickle.root().at("state_dict_metadata");
  DistributedReader folder{reader, metadata.path()};
  for (std::size_t i = 0; i < stored.size(); ++i) folder.add_place(stored.key(i), stored.at(i));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string name(tensors.key(i).text());
    const bool object = tensors.at(i).type().ends_with(" BytesStorageMetadata");
    object ? folder.add_object(name) : folder.add_tensor(name, tensors.at(i));
  }
}

}  // namespace shardlab
