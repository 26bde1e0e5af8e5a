// temporary_folder.h - files of a test, and what is read of them.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "sim/checkpoint/checkpoint.h"
#include "sim/recording/elements.h"

namespace shardlab {

/// A folder of its own that is gone afterwards.
class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_((std::filesystem::temp_directory_path() /
               ("shardlab_checkpoint_" + std::to_string(getpid())))
                  .string()) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  /// Writes a file; its path.
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << bytes;
    return path_ + "/" + name;
  }

 private:
  std::string path_;
};

/// The row-major elements of a tensor, as numbers.
inline std::vector<double> elements_of(const Checkpoint& checkpoint, const std::string& name) {
  const StoredTensor& tensor = *checkpoint.find(name);
  std::string bytes(static_cast<std::size_t>(tensor.bytes()), '\xAA');
  checkpoint.read(tensor, {Dims(tensor.shape.size()), tensor.shape}, bytes.data());
  std::vector<double> numbers;
  for (const Scalar& scalar : stored_scalars(bytes, *tensor.type->dtype)) {
    numbers.push_back(scalar.to_double());
  }
  return numbers;
}

/// The message of what opening a checkpoint, or reading all its tensors, fails with; empty:
/// nothing.
inline std::string fault_of(const std::string& path) {
  try {
    const Checkpoint checkpoint = Checkpoint::open(path);
    for (const StoredTensor& tensor : checkpoint.tensors()) {
      std::string bytes(static_cast<std::size_t>(tensor.bytes()), '\0');
      checkpoint.read(tensor, {Dims(tensor.shape.size()), tensor.shape}, bytes.data());
    }
    return "";
  } catch (const Error& error) {
    return error.summary();
  }
}

}  // namespace shardlab
