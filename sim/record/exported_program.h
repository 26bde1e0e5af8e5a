// exported_program.h - a program of torch.export.save (.pt2) as the lines of a training step: its
// nodes are calls, the tensors of its archive are inputs. Replay and runs take it as a recording.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "sim/record/step_lines.h"

namespace shardlab {

/// The files of an exported program, as they are in its archive.
struct ExportedFiles {
  std::string path;     ///< of the archive, for messages
  std::string name;     ///< of the program
  std::string program;  ///< models/model.json
  /// The names of weights and constants, with their folders: *_config.json.
  std::map<std::string, std::string> configs;
  /// Files of elements by name, as ranges of `raw`: begin, size.
  std::map<std::string, std::pair<std::size_t, std::size_t>> elements;
  std::string raw;
};

/// Opens an archive.
///   fails  Value: damaged, or no program in it. Unsupported: an archive of before PyTorch 2.8
ExportedFiles open_exported(const std::string& path, std::string bytes);

/// The program at the sizes that are asked for. Inputs have the elements of a formula: indices
/// below what they point into. The first line has "exported", and "sizes": what is known of each
/// symbol.
///   fails  Value: damaged; a size out of its range; no such output. Unsupported: another schema,
///          op, kind of argument or of input, with its node and place
StepFile step_of_exported(ExportedFiles files, const ExportOptions& options);

}  // namespace shardlab
