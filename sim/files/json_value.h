// json_value.h - JSON values, for files that read the inside of one. The library's code is compiled
// once, optimized: a file that is compiled for size or for debugging does not bring its own copy,
// one of which the linker would keep for all.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "sim/files/json.h"

extern template class nlohmann::basic_json<>;

namespace shardlab {

/// The value that the text is; discarded (is_discarded()) where it is no JSON.
Json read_json(std::string_view text);
/// The same.
///   fails  nlohmann's parse_error: no JSON
Json parsed_json(std::string_view text);

/// A list with of(item) for each item.
Json json_list(const auto& items, const auto& of) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(of(item));
  return list;
}

/// Calls read(). If the JSON has another form than read() takes, as a value of another kind or an
/// index that does not exist, refuse(text) is called, which throws.
void read_or_refuse(const auto& read, const auto& refuse) {
  try {
    read();
  } catch (const Json::exception& error) {
    refuse(error.what());
  } catch (const std::logic_error& error) {
    refuse(error.what());
  }
}

}  // namespace shardlab
