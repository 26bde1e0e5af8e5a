// Errors of the readers have line and field; here they get the file.
#include "sim/capture/graph_file.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/fix.h"
#include "sim/record/step_file.h"
#include "sim/record/text_lines.h"
#include "trace/graph_json.h"

namespace shardlab {

std::vector<ProgramGraph> graphs_in(const std::string& path, const std::string& text) {
  try {
    return read_graphs(text);
  } catch (const Error& error) {
    Error named(error.kind(), fmt::format("{}: {}", path, error.summary()));
    for (const auto& [key, value] : error.parts()) named.with(key, value);
    throw named;
  }
}

std::vector<ProgramGraph> graphs_of_file(const std::string& path) {
  if (path.ends_with(".py")) {
    fail(ErrorKind::kValue, Fix{fmt::format("{}{}", kRecordFirst, path)},
         "{}: a recording or a graph is replayed, and this is a Python file", path);
  }
  return graphs_in(path, read_text(path));
}

}  // namespace shardlab
