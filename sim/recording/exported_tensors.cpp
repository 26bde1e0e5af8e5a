// Numbers in shapes may be symbols, whose sizes are known when the tensors are read.
#include "sim/recording/exported_tensors.h"

#include <algorithm>
#include <limits>

#include "base/fix.h"
#include "sim/recording/recorded_values.h"
#include "trace/graph_meshes.h"

namespace shardlab {

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
