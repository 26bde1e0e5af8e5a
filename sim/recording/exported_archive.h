// exported_archive.h - the archive of a program that torch.export.save wrote (.pt2): the program's
// text, and the elements of its tensors.
#pragma once

#include <map>
#include <string>

#include "sim/checkpoint/file_bytes.h"
#include "sim/files/json_tree.h"
#include "sim/recording/recorded_program.h"

namespace shardlab {

/// The advice where an archive is damaged.
inline constexpr std::string_view kExportAgain =
    "export the program again: torch.export.save(ep, FILE)";

/// The files of an exported program, as they are in its archive.
struct ExportedFiles {
  std::string path;     ///< of the archive, for messages
  std::string name;     ///< of the program
  std::string program;  ///< models/model.json
  /// The names of weights and constants, with their folders: *_config.json.
  std::map<std::string, std::string> configs;
  std::map<std::string, FileBytes> elements;  ///< files of elements by name
};

/// Opens an archive.
///   fails  Value: damaged, or no program in it. Unsupported: an archive of before PyTorch 2.8
ExportedFiles open_exported(const FileBytes& bytes);

/// A dtype by torch.export's number. Fails with Unsupported if it is not read.
DType exported_dtype(const JsonNode& number);

/// A tensor as the archive describes it.
struct ExportedTensor {
  TensorMeta meta;
  std::int64_t offset = 0;  ///< in elements
};

/// Puts a tensor's elements, row-major, behind those in `raw`; their place there.
///   fails  Value: no file of this name, or a tensor beyond its end
RecordedElements place_elements(const ExportedFiles& files, const std::string& file,
                                const ExportedTensor& tensor, std::string& raw);

}  // namespace shardlab
