// A number that is not finite is a text, so that any reader of JSON takes our files; a mesh is a
// list, because the members of an object have no order and mesh dims do.
#include "sim/files/json.h"

#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "mesh/mesh_layout.h"
#include "sim/files/json_value.h"

template class nlohmann::basic_json<>;

namespace shardlab {

Json read_json(std::string_view text) { return Json::parse(text, nullptr, false); }

Json parsed_json(std::string_view text) { return Json::parse(text); }

Json json_number(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

double number_of(const Json& json) {
  if (json.is_number()) return json.get<double>();
  const std::string text = json.is_string() ? json.get<std::string>() : json_line(json);
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  throw Error(ErrorKind::kValue, fmt::format("'{}' is not a number", text))
      .with("fix", "write a number, \"nan\", \"inf\" or \"-inf\"");
}

std::string json_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <typename Integer>
Integer integer_of(const Json& json) {
  const bool natural = json.is_number_unsigned();
  const bool fits =
      natural ? std::in_range<Integer>(json.get<std::uint64_t>())
              : json.is_number_integer() && std::in_range<Integer>(json.get<std::int64_t>());
  if (fits)
    return natural ? static_cast<Integer>(json.get<std::uint64_t>())
                   : static_cast<Integer>(json.get<std::int64_t>());
  throw Error(ErrorKind::kValue, fmt::format("{} is not an integer{}", json_line(json),
                                             json.is_number_integer() ? " of that size" : ""))
      .with("fix", "write a whole number without a point");
}
template std::int32_t integer_of(const Json& json);
template std::int64_t integer_of(const Json& json);
template std::size_t integer_of(const Json& json);

template <typename Integer>
Integer integer_or(const Json& object, const char* field, Integer otherwise) {
  const auto found = object.find(field);
  return found == object.end() ? otherwise : integer_of<Integer>(*found);
}
template std::int32_t integer_or(const Json& object, const char* field, std::int32_t otherwise);
template std::int64_t integer_or(const Json& object, const char* field, std::int64_t otherwise);
template std::size_t integer_or(const Json& object, const char* field, std::size_t otherwise);

std::vector<std::int64_t> integers_of(const Json& list) {
  std::vector<std::int64_t> integers;
  for (const Json& item : list) integers.push_back(integer_of<std::int64_t>(item));
  return integers;
}

Json json_of_dims(const MeshLayout& layout) {
  Json dims = Json::array();
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    dims.push_back({{"name", layout.names()[dim]}, {"size", layout.size(dim)}});
  }
  return dims;
}

}  // namespace shardlab
