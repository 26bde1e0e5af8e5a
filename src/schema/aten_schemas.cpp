// One long text, written by tests/golden/write_schemas.py: a schema a line, sorted by name. The
// beginnings of lines are found once; only lines that are requested are parsed.
#include "schema/aten_schemas.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace shardlab {
namespace {

constexpr char kLines[] =
#include "schema/aten_schemas.inc"
    ;
constexpr std::string_view kText(kLines, sizeof(kLines) - 1);

struct Line {
  std::string_view name, schema;
};

std::vector<Line> read_lines() {
  std::vector<Line> lines;
  for (std::size_t at = kText.find('\n') + 1; at < kText.size();) {
    const std::size_t end = std::min(kText.find('\n', at), kText.size());
    const std::string_view schema = kText.substr(at, end - at);
    lines.push_back({schema.substr(0, schema.find('(')), schema});
    at = end + 1;
  }
  return lines;
}

const std::vector<Line>& all_lines() {
  static const std::vector<Line> lines = read_lines();
  return lines;
}

/// The first line whose name is `wanted` or greater.
auto first_from(std::string_view wanted) {
  return std::ranges::lower_bound(all_lines(), wanted, {}, &Line::name);
}

}  // namespace

std::string_view aten_schema(std::string_view name) {
  const std::string wanted =
      name.find("::") == std::string_view::npos ? "aten::" + std::string(name) : std::string(name);
  const auto found = first_from(wanted);
  if (found == all_lines().end() || found->name != wanted) {
    fail(ErrorKind::kInternal, "ATen has no op {}", wanted);
  }
  return found->schema;
}

std::vector<std::string_view> aten_schemas_of(std::string_view beginning) {
  std::vector<std::string_view> schemas;
  for (auto at = first_from(beginning); at != all_lines().end(); ++at) {
    if (!at->schema.starts_with(beginning)) break;
    schemas.push_back(at->schema);
  }
  return schemas;
}

}  // namespace shardlab
