// Shapes, placements and arguments of damaged lines are refused where they are read.
#include "tests/facts/fact_json.h"

#include <complex>

#include "base/error.h"

namespace shardlab {
namespace {

Argument tensor_argument(const MeshLayout* layout, const Json& tensor) {
  if (tensor.is_null()) return {};
  TensorMeta meta = contiguous_meta(dims_of(tensor.at("shape")), dtype_of(tensor.at("dtype")));
  if (tensor.contains("stride")) meta.stride = dims_of(tensor.at("stride"));
  return layout->arena().spec(layout, placements_of(tensor.at("placements")), meta);
}

Argument list_argument(const MeshLayout* layout, const Json& list) {
  ArgumentList elements;
  for (const Json& element : list) elements.push_back(fact_argument(layout, element));
  return elements;
}

Argument object_argument(const MeshLayout* layout, const Json& value) {
  if (value.contains("t")) return tensor_argument(layout, value.at("t"));
  if (value.contains("tl")) {
    ArgumentList tensors;
    for (const Json& tensor : value.at("tl")) tensors.push_back(tensor_argument(layout, tensor));
    return tensors;
  }
  if (value.contains("float")) return number_of(value.at("float"));
  if (value.contains("complex")) {
    return Scalar(std::complex<double>(number_of(value.at("complex").at(0)),
                                       number_of(value.at("complex").at(1))));
  }
  if (value.contains("dtype")) return dtype_of(value.at("dtype"));
  if (value.empty())
    fail(ErrorKind::kValue, Fix{"write null for an argument that is None"},
         "an argument of the fact is an empty object");
  return value.begin().value().get<std::string>();  // memory_format, layout, device
}

}  // namespace

Json json_of(std::span<const std::int64_t> values) {
  return Json(std::vector<std::int64_t>(values.begin(), values.end()));
}

Json texts_of(const Placements& placements) {
  Json texts = Json::array();
  for (const Placement& placement : placements) texts.push_back(to_string(placement));
  return texts;
}

Argument fact_argument(const MeshLayout* layout, const Json& value) {
  if (value.is_null()) return {};
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return integer_of<std::int64_t>(value);
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) return list_argument(layout, value);
  return object_argument(layout, value);
}

std::string recorded_collective(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kAllToAll:
      return "all_gather_into_tensor";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter_tensor";
    default:
      return std::string(to_string(kind));
  }
}

const Json& list_at(const Json& object, const char* field) {
  static const Json kNone = Json::array();
  const auto found = object.find(field);
  return found == object.end() ? kNone : *found;
}

}  // namespace shardlab
