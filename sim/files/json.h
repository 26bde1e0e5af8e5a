// json.h - common parts of the JSON that shardlab writes and reads. A light header: a file that
// reads the inside of a value includes json_value.h.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace shardlab {

class MeshLayout;

using Json = nlohmann::json;

/// The number, or "nan", "inf" or "-inf", for which JSON has no numbers.
Json json_number(double value);
/// The reverse.
///   fails  Value: another text; nlohmann's type_error: neither number nor text
double number_of(const Json& json);

/// On one line. Bytes that are not UTF-8, as those of damaged files, are replaced.
std::string json_line(const Json& json);

/// The integer, of std::int32_t, std::int64_t or std::size_t.
///   fails  Value: no integer, or one that `Integer` does not hold
template <typename Integer>
Integer integer_of(const Json& json);
/// The integer of a field, or `otherwise` if the object has none.
template <typename Integer>
Integer integer_or(const Json& object, const char* field, Integer otherwise);
/// A list of them.
std::vector<std::int64_t> integers_of(const Json& list);

/// [{"name": "dp", "size": 2}, ...], mesh dim 0 first.
Json json_of_dims(const MeshLayout& layout);

}  // namespace shardlab
