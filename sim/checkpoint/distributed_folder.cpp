// .metadata is a pickle of records: the state of an object is a dict of its fields, or a tuple of
// them where its class says so.
#include "base/error.h"
#include "base/text.h"
#include "sim/checkpoint/checkpoint_reader.h"

namespace shardlab {

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
