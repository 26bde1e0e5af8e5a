// A part of a name is a number where a list of modules holds it.
#include "base/name_pattern.h"

#include <vector>

#include "base/text_of_list.h"

namespace shardlab {

std::string name_pattern(std::string_view name) {
  std::vector<std::string_view> parts = parts_of_text(name, ".");
  for (std::string_view& part : parts) {
    if (!part.empty() && part.find_first_not_of("0123456789") == part.npos) part = "*";
  }
  return text_of_list(parts, ".");
}

}  // namespace shardlab
