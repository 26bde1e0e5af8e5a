// stored_elements.h - the elements and faults of a checkpoint, for tests.
#pragma once

#include <string>
#include <vector>

#include "sim/checkpoint/checkpoint.h"
#include "sim/recording/elements.h"
#include "tests/support/temporary_folder.h"

namespace shardlab {

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
