// Errors of the readers have line and field; here they get the file.
#include "sim/graph/graph_file.h"

#include "base/error.h"
#include "sim/files/text_lines.h"
#include "sim/recording/advice.h"
#include "sim/recording/recording_file.h"
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
    fail(Fix{fmt::format("{}{}", kRecordFirst, path)},
         "{}: a recording or a graph is replayed, and this is a Python file", path);
  }
  if (is_recording_file(path, "dump")) {
    fail(Fix{"shardlab blame RECORDING " + path},
         "{}: the values of a job, without the program that computes them", path);
  }
  const std::string text = read_text(path);
  // Graphs and newer recordings name their form first.
  if (text.starts_with(R"({"k":"program","program":)")) {
    fail(ErrorKind::kUnsupported, Fix{record_again()},
         "{}: a recording without a schema, as older versions wrote it", path);
  }
  return graphs_in(path, text);
}

}  // namespace shardlab
