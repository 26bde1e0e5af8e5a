// writer.h - tensors as safetensors: one file, several with an index, or files of ranks, which
// PyTorch's DCP reads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mesh/spec.h"
#include "sim/checkpoint/edited.h"

namespace shardlab {

struct WriteOptions {
  std::int64_t most_bytes = 5'000'000'000;  ///< of elements in a file
  bool replace = false;                     ///< what is there already
  /// The mesh and the placements of a tensor on it; null: one file, or several with an index.
  const MeshLayout* mesh = nullptr;
  std::function<const DTensorSpec*(std::size_t tensor)> placed = nullptr;
  /// The place of each tensor in a whole; empty: they are whole.
  std::vector<Dims> offsets = {};
  /// Called with the bytes that are written, of all; null: nothing is.
  std::function<void(std::int64_t done, std::int64_t all)> progress = nullptr;
};

/// A box of the whole that a rank holds, and its place in the rank's local tensor.
struct HeldBox {
  Box whole;
  Dims local;
};
enum class Replicas : std::uint8_t { kFirst, kAll };
/// The boxes of one rank; kFirst: without those that ranks before it have.
std::vector<HeldBox> boxes_of(const DTensorSpec& spec, const Coordinate& coordinate,
                              Replicas replicas = Replicas::kFirst);

/// Writes a file, if the path ends with .safetensors, or a folder: beside it, then renamed. A
/// tensor at a time is in memory. Returns the names of the files.
///   fails  Value: it is there; one file for more than `most_bytes`. Unsupported: a type that
///          safetensors does not have. Runtime: it cannot be written
std::vector<std::string> write_tensors(const std::string& path, const MadeTensors& tensors,
                                       const WriteOptions& options);

}  // namespace shardlab
