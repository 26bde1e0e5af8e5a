// A checkpoint that was recorded as NAME.json is the folder NAME beside it. Elements are compared
// twice: with the recorded formula, and by the recorded checksum.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/text.h"
#include "sim/checkpoint/compare.h"
#include "sim/checkpoint/writer.h"
#include "sim/files/json_value.h"
#include "sim/files/sha256.h"
#include "sim/recording/elements.h"
#include "tests/facts/checkpoint_facts.h"
#include "tests/facts/fact_json.h"

namespace shardlab {

namespace {

namespace fs = std::filesystem;

std::string dtype_of_fact(const Json& fact) {
  const auto name = fact.at("dtype").get<std::string>();
  return name == "f8_e4m3" ? "f8e4m3fn" : name == "f8_e5m2" ? "f8e5m2" : name;
}

std::string bytes_of(const Checkpoint& checkpoint, const StoredTensor& tensor,
                     std::size_t last = 0) {
  std::string bytes(static_cast<std::size_t>(tensor.bytes()), '\0');
  checkpoint.read(tensor, {Dims(tensor.shape.size()), tensor.shape}, bytes.data(), last);
  return bytes;
}

// Element i is base + i % period.
bool follows_formula(const std::string& bytes, DType dtype, const Json& fact) {
  const std::vector<Scalar> elements = stored_scalars(bytes, dtype);
  const auto base = integer_of<std::int64_t>(fact.at("base")),
             period = integer_of<std::int64_t>(fact.at("period"));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const auto place = static_cast<std::int64_t>(i);
    const std::int64_t expected = dtype == DType::kBool ? place % 2 : base + place % period;
    if (elements[i].to_double() != static_cast<double>(expected)) return false;
  }
  return true;
}

// The mesh and placements that a tensor was saved with.
const DTensorSpec* spec_of(Arena& arena, const Json& fact) {
  const Json& how = fact.at("how");
  const MeshLayout* mesh =
      arena.layout({dims_of(how.at("mesh")), how.at("names").get<std::vector<std::string>>(), {}});
  return arena.spec(mesh, placements_of(how.at("placements")),
                    contiguous_meta(dims_of(fact.at("shape")), DType::kF32));
}

void write_recorded(const Json& fact, const std::string& folder) {
  Arena arena;
  MadeTensors tensors;
  std::vector<const DTensorSpec*> specs;
  for (const auto& [name, one] : fact.at("tensors").items()) {
    const auto base = integer_of<std::int64_t>(one.at("base"));
    std::string numbers;
    const Dims shape = dims_of(one.at("shape"));
    for (std::int64_t i = base; i < base + product(shape); ++i) {
      numbers.append(reinterpret_cast<const char*>(&i), sizeof i);
    }
    const DType dtype = *parse_dtype(dtype_of_fact(one));
    tensors.push_back(
        {name, &stored_type(dtype), shape, [=] { return converted(numbers, DType::kI64, dtype); }});
    specs.push_back(spec_of(arena, one));
  }
  WriteOptions options{.replace = true, .mesh = specs[0]->layout()};
  options.placed = [&specs](std::size_t i) { return specs[i]; };
  write_tensors(folder, tensors, options);
}

// Boxes of all ranks that hold something, each once, as text.
std::vector<std::string> recorded_boxes(const Json& fact) {
  Arena arena;
  const Json& how = fact.at("how");
  const Dims shape = dims_of(fact.at("shape"));
  if (how == "whole") return {fmt::format("[{}]", text_of_list(shape, ", "))};
  const DTensorSpec* spec = spec_of(arena, fact);
  const MeshLayout* mesh = spec->layout();
  std::set<std::string> boxes;
  for (std::int64_t rank = 0; rank < mesh->size(); ++rank) {
    const Coordinate at = mesh->coordinate_at_index(rank);
    if (product(shape) == 0) {
      boxes.insert(fmt::format("[{}] at [{}]", text_of_list(shape, ", "),
                               text_of_list(Dims(shape.size()), ", ")));
    }
    for (const auto& [box, local] : boxes_of(*spec, at)) {
      boxes.insert(
          fmt::format("[{}] at [{}]", text_of_list(box.shape, ", "), text_of_list(box.from, ", ")));
    }
  }
  return {boxes.begin(), boxes.end()};
}

std::vector<std::string> boxes_of(const StoredTensor& tensor, bool whole) {
  std::set<std::string> boxes;
  for (const StoredPiece& piece : tensor.pieces) {
    if (tensor.count() > 0 && product(piece.box.shape) == 0) continue;
    std::string text = fmt::format("[{}]", text_of_list(piece.box.shape, ", "));
    if (!whole) text += fmt::format(" at [{}]", text_of_list(piece.box.from, ", "));
    boxes.insert(std::move(text));
  }
  return {boxes.begin(), boxes.end()};
}

std::string printed(const Json& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  std::string text = value.dump();
  for (std::size_t at = 0; value.is_array() && (at = text.find(',', at)) != std::string::npos;)
    text.insert(++at, " ");
  return text;
}

class CheckpointChecker final : public FactChecker {
 public:
  void begin(const CheckOptions&, const std::string& path) override { path_ = path; }

  void check(const Json& fact, CaseReport& report) override {
    const std::string folder = path_.substr(0, path_.size() - std::string_view(".json").size());
    const bool saved = fs::exists(folder);
    const std::string ours =
        (fs::temp_directory_path() / fmt::format("shardlab_facts_{}", getpid())).string();
    // PyTorch refuses to save it: our own writer is asked, with the same placements.
    if (!saved) write_recorded(fact, ours);
    const Checkpoint checkpoint = Checkpoint::open(saved ? folder : ours);
    std::set<std::string> known;
    for (const auto& [name, expected] : fact.at("tensors").items()) {
      known.insert(name);
      check_tensor(checkpoint, name, expected, report);
    }
    check_one_of(checkpoint, fact, known, report);
    for (const StoredTensor& tensor : checkpoint.tensors()) {
      if (known.contains(tensor.name) || fact.contains("more_keys")) continue;
      report.differs(tensor.name, nullptr, tensor.text());
    }
    const Json objects = fact.value("objects", Json::object());
    for (const auto& [name, expected] : objects.items()) {
      const auto found = std::ranges::find(checkpoint.objects(), name, &StoredObject::name);
      const bool there = found != checkpoint.objects().end();
      report.expect(name, printed(expected), there ? checkpoint.print(*found) : "none");
    }
    fs::remove_all(ours);
  }

 private:
  static void check_tensor(const Checkpoint& checkpoint, const std::string& name,
                           const Json& expected, CaseReport& report) {
    const StoredTensor* tensor = checkpoint.find(name);
    if (tensor == nullptr || tensor->type == nullptr) {
      return report.differs(name, "a tensor", "none that is read");
    }
    report.expect(name + ".dtype", dtype_of_fact(expected), std::string(tensor->type->name));
    report.expect(name + ".shape", expected.at("shape"), json_of(tensor->shape));
    report.expect(name + ".faults", 0, faults_of(*tensor).size());
    // Consolidation makes pieces one.
    const bool whole = expected.at("how") == "whole" || tensor->pieces.size() == 1;
    if (!whole) report.expect(name + ".pieces", recorded_boxes(expected), boxes_of(*tensor, whole));
    const std::string bytes = bytes_of(checkpoint, *tensor);
    report.expect(name + ".sha256", expected.at("sha256"), sha256(bytes));
    if (tensor->type->dtype && expected.contains("base")) {
      report.expect(name + ".elements", true,
                    follows_formula(bytes, *tensor->type->dtype, expected));
    }
  }

  // Ranks held different values under one name: one of them is stored, or all.
  static void check_one_of(const Checkpoint& checkpoint, const Json& fact,
                           std::set<std::string>& known, CaseReport& report) {
    const Json several = fact.value("one_of", Json::object());
    for (const auto& [name, choices] : several.items()) {
      known.insert(name);
      const StoredTensor* tensor = checkpoint.find(name);
      const std::string sum = tensor == nullptr ? "none" : sha256(bytes_of(checkpoint, *tensor));
      const bool found =
          std::ranges::any_of(choices, [&](const Json& one) { return one.at("sha256") == sum; });
      report.expect(name + ".sha256", true, found);
    }
  }

  std::string path_;
};

struct PairKind {
  std::string_view planted, id;
};
constexpr PairKind kPairs[] = {
    {"order_of_cuts", "order-of-cuts"},
    {"ranks_in_another_order", "rank-order"},
    {"another_dim", "other-dim"},
    {"fused_qkv_cut_as_a_whole", "fused-whole"},
    {"fused_gate_up_cut_as_a_whole", "fused-whole"},
    {"gate_and_up_interleaved", "fused-interleaved"},
    {"gate_and_up_exchanged", "fused-exchanged"},
    {"rope_rows_interleaved", "rope-pairs"},
    {"rope_with_the_wrong_head_size", "rope-pairs"},
    {"heads_in_another_order", "head-order"},
    {"kv_heads_of_one_rank_for_all", "kv-repeated"},
    {"transposed", "transposed"},
    {"padding_of_the_vocabulary_kept", "padding-kept"},
    {"padding_between_pieces", "padding-inside"},
    {"piece_missing", "piece-missing"},
    {"piece_twice", "piece-twice"},
    {"tied_weights_untied", "tied-differ"},
    {"layers_exchanged", "names-exchanged"},
    {"flat_parameter_shifted", "flat-shifted"},
    {"bias_counted_on_each_rank", "factor"},
    {"rounded_to_bf16", "rounded"},
    {"experts_in_another_order", "expert-order"},
};

/// Another explanation that gives B exactly is as good as the planted one: it is among those that
/// are the same.
class PairChecker final : public FactChecker {
 public:
  void begin(const CheckOptions&, const std::string& path) override {
    folder_ = path.substr(0, path.rfind('/') + 1);
  }

  void check(const Json& fact, CaseReport& report) override {
    const Checkpoint a = open("a"), b = open("b");
    const CheckpointComparison found = compare(tensors_of(a), tensors_of(b), nullptr);
    std::set<std::string> names;
    std::int64_t differ = 0, moved = 0;
    const auto kind = fact.at("kind").get<std::string>();
    const auto* pair = std::ranges::find(kPairs, kind, &PairKind::planted);
    for (const TensorDifference& one : found.differences) {
      names.insert(one.name);
      differ += one.counts.differ;
      moved += one.counts.moved;
      std::vector<std::string> ids = {"none"};
      if (one.mistake) ids = one.mistake->also;
      if (one.mistake) ids.insert(ids.begin(), one.mistake->id);
      const std::string expected(pair == std::end(kPairs) ? "none" : pair->id);
      if (std::ranges::count(ids, expected) == 0) report.differs(one.name, expected, Json(ids));
    }
    for (const LoneTensor& one : found.lone) {
      names.insert(one.name);
      const StoredTensor* missing = one.in_a ? a.find(one.name) : nullptr;
      if (missing != nullptr) differ += missing->count();
    }
    report.expect("tensors", fact.at("tensors"), Json(in_order(names, fact.at("tensors"))));
    report.expect("wrong", fact.at("wrong"), differ);
    report.expect("moved", fact.at("moved"), moved);
  }

 private:
  Checkpoint open(const std::string& name) const {
    const std::string file = folder_ + name + ".safetensors", index = file + ".index.json";
    return Checkpoint::open(fs::exists(index) ? index : file);
  }
  // Those that are expected in their order, then the others.
  static std::vector<std::string> in_order(std::set<std::string> names, const Json& expected) {
    std::vector<std::string> order;
    for (const Json& name : expected) {
      if (names.erase(name.get<std::string>()) > 0) order.push_back(name.get<std::string>());
    }
    order.insert(order.end(), names.begin(), names.end());
    return order;
  }

  std::string folder_;
};

}  // namespace

std::unique_ptr<FactChecker> make_pair_checker(std::string_view) {
  return std::make_unique<PairChecker>();
}

std::unique_ptr<FactChecker> make_checkpoint_checker(std::string_view) {
  return std::make_unique<CheckpointChecker>();
}

}  // namespace shardlab
