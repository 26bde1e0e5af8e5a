// One long text, written by tests/golden/write_schemas.py: a schema a line, sorted by name. Lines
// are found by halving, so that nothing is read at the start of a program but the ops that it
// registers.
#include "schema/aten_schemas.h"

#include <string>

#include "base/error.h"

namespace shardlab {
namespace {

constexpr char kLines[] =
#include "schema/aten_schemas.inc"
    ;
constexpr std::string_view kText(kLines, sizeof(kLines) - 1);

/// The first line that begins at or behind `position`.
std::size_t next_line(std::size_t position) { return kText.find('\n', position) + 1; }

std::string_view line_at(std::size_t start) {
  return kText.substr(start, kText.find('\n', start) - start);
}

std::string_view name_of(std::string_view line) { return line.substr(0, line.find('(')); }

/// Where the first line stands whose name is `wanted` or greater.
std::size_t first_from(std::string_view wanted) {
  // Lines that begin before `low` have smaller names, those from `high` on have not.
  std::size_t low = next_line(0), high = kText.size();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    // Back to the start of the line around the middle, which is not before `low`.
    const std::size_t start = kText.rfind('\n', middle - 1) + 1;
    if (name_of(line_at(start)) < wanted) {
      low = next_line(start);
    } else {
      high = start;
    }
  }
  return low;
}

}  // namespace

std::string_view aten_schema(std::string_view name) {
  const std::string wanted =
      name.find("::") == std::string_view::npos ? "aten::" + std::string(name) : std::string(name);
  const std::size_t found = first_from(wanted);
  const std::string_view line = found < kText.size() ? line_at(found) : std::string_view();
  if (name_of(line) != wanted) fail(ErrorKind::kInternal, "ATen has no op {}", wanted);
  return line;
}

std::vector<std::string_view> aten_schemas_of(std::string_view beginning) {
  std::vector<std::string_view> lines;
  for (std::size_t at = first_from(beginning); at < kText.size(); at = next_line(at)) {
    if (!line_at(at).starts_with(beginning)) break;
    lines.push_back(line_at(at));
  }
  return lines;
}

}  // namespace shardlab
