// checkpoint_reader.h - a checkpoint while it is read, and the readers of the formats.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "sim/checkpoint/checkpoint.h"
#include "sim/checkpoint/torch_file.h"

namespace shardlab {

/// Names that are read in a file; null: all.
using WantedNames = const std::set<std::string>*;

class CheckpointReader {
 public:
  /// `folder`: of the files.
  CheckpointReader(Checkpoint& out, std::string folder) : out_(out) {
    out_.folder_ = std::move(folder);
  }

  void set_format(std::string format) { out_.format_ = std::move(format); }
  /// Its number; one that was added before keeps its own.
  ///   fails  Value: a path that leads out of the folder
  std::size_t add_file(const std::string& name);
  FileBytes open(std::size_t file) const { return out_.file(file); }
  bool has(const std::string& name) const;
  void note(std::string text) { out_.notes_.push_back(std::move(text)); }
  void add(StoredObject object) { out_.objects_.push_back(std::move(object)); }
  /// Adds a piece to the tensor of this name, whose shape grows with its pieces.
  ///   fails  Value: its type or number of dims is not that of other pieces; an impossible size
  void add(const std::string& name, const StoredType* type, std::string_view type_name,
           const StoredPiece& piece);
  /// Adds a tensor of a known shape, perhaps without pieces.
  StoredTensor& add(const std::string& name, const StoredType* type, std::string_view type_name,
                    const Dims& shape);

 private:
  Checkpoint& out_;
};

/// Whether a file begins as one of safetensors does.
bool is_safetensors(const FileBytes& bytes);
/// Each of these adds the tensors of a file.
///   fails  as Checkpoint::open
void read_safetensors(CheckpointReader& reader, std::size_t file, WantedNames wanted);
void read_npy(CheckpointReader& reader, std::size_t file, WantedNames wanted);
void read_torch(CheckpointReader& reader, std::size_t file, WantedNames wanted);
/// `*.index.json`: file -> names.
std::map<std::string, std::set<std::string>> read_index(const FileBytes& bytes);
/// A folder of DCP, by its `.metadata`.
void read_distributed(CheckpointReader& reader);

}  // namespace shardlab
