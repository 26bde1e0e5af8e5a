// A size is the number that a dim begins with; names of mesh dims may have digits in them.
#include "sim/edit/type_sizes.h"

#include <cctype>
#include <charconv>

namespace shardlab {

TypeSizes::TypeSizes(const std::string& text) {
  std::size_t at = text.find('[') + 1, begun = 0;
  int depth = 0;
  bool size_follows = true;
  for (; at < text.size() && (depth > 0 || text[at] != ']'); ++at) {
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    if (text[at] == ',' && depth == 0) size_follows = true;
    if (!size_follows || std::isdigit(static_cast<unsigned char>(text[at])) == 0) continue;
    std::int64_t size = 0;
    const char* const first = text.data() + at;
    const char* const last = std::from_chars(first, text.data() + text.size(), size).ptr;
    between.push_back(text.substr(begun, at - begun));
    sizes.push_back(size);
    at += static_cast<std::size_t>(last - first) - 1;
    begun = at + 1;
    size_follows = false;
  }
  between.push_back(text.substr(begun));
}

std::string TypeSizes::text() const {
  std::string out = between.front();
  for (std::size_t i = 0; i < sizes.size(); ++i) out += std::to_string(sizes[i]) + between[i + 1];
  return out;
}

bool TypeSizes::cuts(const std::string& mesh_dim, std::size_t dim) const {
  std::string cut = between[dim + 1].substr(0, between[dim + 1].find(']'));
  for (std::size_t at = 0; (at = cut.find(mesh_dim, at)) != std::string::npos; ++at) {
    const std::size_t end = at + mesh_dim.size();
    const char before = at > 0 ? cut[at - 1] : ' ', after = end < cut.size() ? cut[end] : ' ';
    const bool whole = (before == '@' || before == '(' || before == ',' || before == ' ') &&
                       std::isalnum(static_cast<unsigned char>(after)) == 0 && after != '_';
    if (whole) return true;
  }
  return false;
}

}  // namespace shardlab
