// Names in the nested dicts and lists of a file of torch.save are joined by dots, as DCP does it.
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

}  // namespace shardlab
