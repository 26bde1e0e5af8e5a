// Integers are taken as they are written: a number with a fraction, or beyond 64 bits, is refused.
// Numbers that JSON cannot write are objects: {"f": "inf"}, {"c": [real, imaginary]}.
#include "trace/graph_fields.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "base/error.h"

namespace shardlab {

GraphObject json_of(double value) {
  if (std::isfinite(value)) return value;
  return {{"f", std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"}};
}

GraphObject json_of(const Scalar& scalar) {
  switch (scalar.category()) {
    case Category::kBool:
      return scalar.to_bool();
    case Category::kInteger:
      return scalar.to_int();
    case Category::kFloat:
      return json_of(scalar.to_double());
    default:
      return {{"c", {json_of(scalar.to_double()), json_of(scalar.imaginary())}}};
  }
}

GraphFields::GraphFields(const GraphObject& object, std::size_t line, std::string path)
    : object_(object), line_(line), path_(std::move(path)) {
  if (!object.is_object()) refuse("", "must be an object");
}

void GraphFields::refuse(std::string_view key, std::string_view what) const {
  std::string field = path_;
  if (!key.empty()) field += (field.empty() ? "" : ".") + std::string(key);
  fail(Fix{kCaptureAgain}, "line {} of the graph: {} {}", line_,
       field.empty() ? "the line" : "'" + field + "'", what);
}

const GraphObject* GraphFields::find(const char* key) {
  const auto found = object_.find(key);
  if (found == object_.end()) return nullptr;
  taken_.insert(key);
  return &*found;
}

const GraphObject& GraphFields::at(const char* key) {
  const GraphObject* found = find(key);
  if (found == nullptr) refuse(key, "is missing");
  return *found;
}

const GraphObject& GraphFields::list(const char* key) {
  static const GraphObject kNone = GraphObject::array();
  const GraphObject* found = find(key);
  if (found == nullptr) return kNone;
  if (!found->is_array()) refuse(key, "must be a list");
  return *found;
}

std::string GraphFields::text(const char* key) {
  const GraphObject& value = at(key);
  if (!value.is_string()) refuse(key, "must be a text");
  return value.get<std::string>();
}

void GraphFields::flag(const char* key, bool& value, bool otherwise) {
  const GraphObject* found = find(key);
  if (found != nullptr && !found->is_boolean()) refuse(key, "must be true or false");
  value = found != nullptr ? found->get<bool>() : otherwise;
}

std::int64_t GraphFields::integer(const char* key, std::int64_t least, std::int64_t most) {
  return integer_of(at(key), key, least, most);
}

void GraphFields::natural(const char* key, std::uint64_t& value) {
  const GraphObject& found = at(key);
  const bool fits =
      found.is_number_integer() && (found.is_number_unsigned() || found.get<std::int64_t>() >= 0);
  if (!fits) refuse(key, "must be an integer of at least 0");
  value = found.get<std::uint64_t>();
}

void GraphFields::real(const char* key, double& value, double otherwise) {
  const GraphObject* found = find(key);
  value = found != nullptr ? real_of(*found, key) : otherwise;
}

std::vector<std::int64_t> GraphFields::integers(const char* key, std::int64_t least,
                                                std::int64_t most) {
  std::vector<std::int64_t> values;
  for (const GraphObject& item : list(key)) values.push_back(integer_of(item, key, least, most));
  return values;
}

void GraphFields::texts(const char* key, std::vector<std::string>& values, Written) {
  for (const GraphObject& item : list(key)) {
    if (!item.is_string()) refuse(key, "must be a list of texts");
    values.push_back(item.get<std::string>());
  }
}

Dims GraphFields::sizes(const char* key) {
  Dims sizes;
  std::int64_t elements = 1;
  for (const std::int64_t size : integers(key, 0, std::int64_t{1} << 48)) {
    sizes.push_back(size);
    if (size > 0 && elements > (std::int64_t{1} << 52) / size) refuse(key, "is too large");
    elements *= std::max<std::int64_t>(size, 1);
  }
  if (sizes.size() > 64) refuse(key, "has more than 64 dims");
  return sizes;
}

GraphFields GraphFields::inside(const GraphObject& object, const char* key) const {
  return GraphFields(object, line_, path_.empty() ? key : path_ + "." + key);
}

void GraphFields::end() const {
  for (const auto& [key, value] : object_.items()) {
    if (!taken_.contains(key)) refuse(key, "is not known");
  }
}

std::int64_t GraphFields::integer_of(const GraphObject& value, const char* key, std::int64_t least,
                                     std::int64_t most) const {
  const bool fits =
      value.is_number_integer() &&
      !(value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX});
  if (!fits) refuse(key, "must be an integer");
  const auto integer = value.get<std::int64_t>();
  if (integer < least || integer > most) {
    refuse(key, fmt::format("is {}; it must be from {} to {}", integer, least, most));
  }
  return integer;
}

double GraphFields::real_of(const GraphObject& value, const char* key) const {
  if (value.is_number()) return value.get<double>();
  if (value.is_object() && value.size() == 1 && value.contains("f") && value["f"].is_string()) {
    const std::string text = value["f"].get<std::string>();
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  }
  refuse(key, "must be a number");
}

Scalar GraphFields::scalar_of(const GraphObject& value, const char* key) const {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return integer_of(value, key, INT64_MIN, INT64_MAX);
  if (value.is_object() && value.contains("c")) {
    const GraphObject& parts = value["c"];
    if (!parts.is_array() || parts.size() != 2) refuse(key, "must have two parts");
    return std::complex<double>(real_of(parts[0], key), real_of(parts[1], key));
  }
  return real_of(value, key);
}

std::vector<Scalar> GraphFields::scalars_of(const GraphObject& value, const char* key) const {
  if (!value.is_array()) refuse(key, "must be a list");
  std::vector<Scalar> values;
  values.reserve(value.size());
  for (const GraphObject& item : value) values.push_back(scalar_of(item, key));
  return values;
}

}  // namespace shardlab
