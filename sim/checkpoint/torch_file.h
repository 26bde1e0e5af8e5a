// torch_file.h - a file of torch.save: an archive of a pickle and of storages.
#pragma once

#include <string>
#include <string_view>

#include "sim/checkpoint/pickle.h"
#include "sim/checkpoint/strided_bytes.h"
#include "sim/checkpoint/zip_archive.h"

namespace shardlab {

/// Whether the reader knows a class or function: "torch Size".
bool is_torch_class(std::string_view type);

/// A dtype of torch in a pickle; null if the type is not read.
const StoredType* dtype_of(PickleValue value);
/// A torch.Size, or another tuple of integers.
Dims dims_of(PickleValue value);

class TorchFile {
 public:
  struct Tensor {
    const StoredType*
        type;  ///< null: one that is not read, and only the shape of elements is known
    std::string type_name;
    StridedBytes elements;
  };

  ///   fails  Value: no archive of torch.save; damaged. Unsupported: the older form without an
  ///          archive; big-endian; a class that is not known, where others are refused
  TorchFile(const FileBytes& bytes, PickleRules::Others others);

  PickleValue root() const { return pickle_.root(); }
  /// No storages, and no classes that are not known.
  bool is_plain() const;
  /// A hash of the pickle and the storages.
  std::uint64_t sum() const;
  /// Whether a value is a tensor: what torch._utils._rebuild_... would make.
  static bool is_tensor(PickleValue value);
  ///   fails  Value: damaged; its elements are outside of its storage
  Tensor tensor(PickleValue value) const;

 private:
  ZipArchive archive_;
  std::string folder_;  // of all files in it: "archive/"
  Pickle pickle_;
};

}  // namespace shardlab
