// step_lines.h - a training step as lines of JSON and elements, wherever they come from.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/record/json_value.h"

namespace shardlab {

/// A whole file, of which only the end is checked.
struct StepFile {
  std::string path;
  std::vector<std::string> lines;  ///< JSON, from "program" to "end"
  std::string raw;                 ///< elements; little-endian, row-major, without padding
  std::vector<Json> events{};      ///< in place of lines, where they were no text
};

/// The choices that a program of torch.export leaves open.
struct ExportOptions {
  std::map<std::string, std::int64_t> sizes;  ///< by symbol; what is no symbol is not looked at
  std::string backward;                       ///< the output that gradients are of; empty: none
};

}  // namespace shardlab
