// Names in the nested dicts and lists of a file of torch.save are joined by dots, as DCP does it.
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

class TorchReader {
 public:
  TorchReader(CheckpointReader& reader, std::size_t index, WantedNames wanted)
      : reader_(reader),
        index_(index),
        wanted_(wanted),
        bytes_(reader.open(index)),
        file_(bytes_, PickleRules::Others::kInert) {}

  void read() {
    const std::string path = bytes_.path().substr(bytes_.path().rfind('/') + 1);
    const bool one = !has_parts(file_.root());
    visit(one ? path.substr(0, path.rfind('.')) : "", file_.root(), 0);
  }

 private:
  void visit(const std::string& name, PickleValue value, int depth) {
    constexpr int kDeepest = 64;
    constexpr std::size_t kText = 1 << 16, kFree = 32 << 20;
    if (TorchFile::is_tensor(value)) {
      if (wanted_ == nullptr || wanted_->contains(name)) add(name, file_.tensor(value));
    } else if (!has_parts(value)) {
      reader_.add(StoredObject{.name = name, .text = value.print(kText)});
      held_ += value.print(kText).size();
    } else {
      for (std::size_t i = 0; i < value.size(); ++i) {
        std::string part = fmt::format("{}", i);
        if (value.is(PickleKind::kDict)) {
          const PickleValue key = value.key(i);
          part = key.is(PickleKind::kText) ? std::string(key.text()) : key.print();
        }
        // A value may be a part of many others, and of itself.
        held_ += name.size() + part.size() + sizeof(StoredTensor);
        if (depth > kDeepest || held_ > 3 * bytes_.size() + kFree) {
          value.refuse("values have each other as parts");
        }
        visit(name.empty() ? part : fmt::format("{}.{}", name, part), value.at(i), depth + 1);
      }
    }
  }

  void add(const std::string& name, const TorchFile::Tensor& tensor) {
    const StridedBytes& elements = tensor.elements;
    const auto first = static_cast<std::uint64_t>(elements.offset * elements.item);
    reader_.add(name, tensor.type, tensor.type->torch,
                StoredPiece{.box = {Dims(elements.shape.size()), elements.shape},
                            .file = index_,
                            .begin = elements.bytes.begin() + first,
                            .length = elements.bytes.size() - first,
                            .stride = elements.stride});
  }

  CheckpointReader& reader_;
  std::size_t index_;
  WantedNames wanted_;
  FileBytes bytes_;
  TorchFile file_;
  std::size_t held_ = 0;  // by names and texts
};

}  // namespace

void read_torch(CheckpointReader& reader, std::size_t file, WantedNames wanted) {
  TorchReader(reader, file, wanted).read();
}

}  // namespace shardlab
