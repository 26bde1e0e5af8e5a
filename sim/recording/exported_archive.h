// exported_archive.h - the archive of a program that torch.export.save wrote (.pt2): the program's
// text, and the elements of its tensors.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "sim/checkpoint/file_bytes.h"
#include "sim/files/json_tree.h"
#include "sim/recording/exported_sizes.h"
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

/// Used by one thread.
class ExportedTensors {
 public:
  /// Both outlive it.
  ExportedTensors(const JsonNode& graph, ExportedSizes& sizes);

  ///   fails  Value: the graph does not describe it
  const JsonNode& meta_of(std::string_view name) const;
  /// Shape, strides and dtype.
  ///   fails  Value: no shape or no strides of this program
  ExportedTensor read(const JsonNode& meta);
  ///   fails  as both. Unsupported: a sparse tensor
  ValueType type_of(std::string_view name);

 private:
  std::unordered_map<std::string_view, const JsonNode*> described_;
  ExportedSizes& sizes_;
};

/// A union has one member: its kind is its key.
const JsonNode& only_member(const JsonNode& json);
std::string_view name_in(const JsonNode& tensor);
/// The name of the tensor that an argument is; else empty.
std::string_view tensor_name(const JsonNode& argument);
/// A number, or a text for one that JSON does not have.
double real_of(const JsonNode& number);

}  // namespace shardlab
