// step_file.h - a training step recorded in PyTorch, as it is stored (sim/record_torch/README.md).
//
//   gzip of JSON lines, the first {"k":"program","form":"recording","schema":2,...}, the last
//   {"k":"end","events":N,"raw":BYTES,...}; then at once BYTES of elements, not compressed
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab {

/// A whole file, of which only the end is checked.
struct StepFile {
  std::string path;
  std::vector<std::string> lines;  ///< JSON, from "program" to "end"
  std::string raw;                 ///< elements; little-endian, row-major, without padding
};

/// True when the first line is that of a recording with a schema number of its own. False for
/// recordings without one (schema 1) and files that cannot be read.
bool is_step_file(const std::string& path);

/// The whole file, which is_step_file().
///   fails  Value: cut short, damaged, of a newer schema, or more than 1 GiB of lines
StepFile read_step_file(const std::string& path);

}  // namespace shardlab
