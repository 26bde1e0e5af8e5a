// exported_tensors.h - the tensors of an exported program's graph, by name.
#pragma once

#include <string_view>
#include <unordered_map>

#include "sim/recording/exported_archive.h"
#include "sim/recording/exported_sizes.h"

namespace shardlab {

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
