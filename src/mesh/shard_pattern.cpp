// A size is open where "_" is the first letter of a dim, outside of the names of mesh dims.
#include "mesh/shard_pattern.h"

#include "base/error.h"

namespace shardlab {

bool name_fits(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern.front() == '*') {
    return name_fits(pattern.substr(1), name) ||
           (!name.empty() && name_fits(pattern, name.substr(1)));
  }
  return !name.empty() && pattern.front() == name.front() &&
         name_fits(pattern.substr(1), name.substr(1));
}

std::string with_sizes(std::string_view type, const Dims& shape, std::string_view tensor) {
  std::string text;
  std::size_t dim = 0;
  // Commas are also between mesh dims: "[_@(data_parallel,tp), _]".
  bool before_size = false, among_cuts = false;
  for (const char letter : type) {
    if (letter == '(') among_cuts = true;
    if (letter == ')') among_cuts = false;
    const bool next = letter == ',' && !among_cuts;
    if (next) ++dim;
    const bool open = before_size && letter == '_';
    if (open && dim >= shape.size()) {
      fail(ErrorKind::kValue, Fix{"write a size, or _ for it, for each dim"},
           "the pattern {} has more dims than {}", type, tensor);
    }
    text += open ? std::to_string(shape[dim]) : std::string(1, letter);
    before_size = letter == '[' || next || (before_size && letter == ' ');
  }
  return text;
}

}  // namespace shardlab
