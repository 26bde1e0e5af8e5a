// checkpoint.h - the contents of a checkpoint: tensors in pieces, their files, and objects.
// Formats: safetensors (one file, indexed, of ranks), .npy, folders of PyTorch's distributed
// checkpoint (DCP), files of torch.save.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/checkpoint/strided_bytes.h"

namespace shardlab {

/// A part of a tensor in a file.
struct StoredPiece {
  Box box;                              ///< in the whole
  std::size_t file = 0;                 ///< of Checkpoint::files()
  std::uint64_t begin = 0, length = 0;  ///< its bytes in the file
  Dims stride = {};                     ///< in elements; empty: row-major
  bool packed = false;  ///< the bytes are a file of torch.save, which has strides of its own
};

struct StoredTensor {
  std::string name;
  const StoredType* type = nullptr;  ///< null: one that is not read
  std::string type_name;             ///< as the file has it
  Dims shape;
  std::vector<StoredPiece> pieces;
  /// "f32[8, 16]".
  std::string text() const;
  std::int64_t count() const { return product(shape); }
  /// 0 if the type is not read.
  std::int64_t bytes() const { return type == nullptr ? 0 : count() * type->bytes; }
};

/// A value that is no tensor.
struct StoredObject {
  std::string name;
  std::string text;  ///< as Python prints it; empty: it is in a file of torch.save
  std::size_t file = 0;
  std::uint64_t begin = 0, length = 0;
};

/// Elements that no piece has, or that several have.
struct PieceFault {
  Box box;                          ///< one of them; boxes that touch may be one
  std::vector<std::size_t> pieces;  ///< that have it; none: a hole
};

/// Immutable; for any number of threads.
class Checkpoint {
 public:
  /// Reads names, types and places; elements only when they are asked for.
  ///   fails  Value: no checkpoint there; cut short or damaged, with the file and what is wrong.
  ///          Unsupported: a format, class or opcode that is not read
  static Checkpoint open(const std::string& path);
  /// Whether open() would try: a folder, or a file that begins as one of the formats.
  static bool is_one(const std::string& path);

  const std::string& path() const { return path_; }
  const std::string& format() const { return format_; }  ///< "DCP", for people
  /// Paths below the folder of the checkpoint.
  const std::vector<std::string>& files() const { return files_; }
  /// In the order of the files, and in them of the elements.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const std::vector<StoredObject>& objects() const { return objects_; }
  /// Parts that are there and not read, or missing, a line each.
  const std::vector<std::string>& notes() const { return notes_; }

  /// Null if there is none.
  const StoredTensor* find(std::string_view name) const;
  /// The row-major elements of a part. In overlaps the first piece counts, unless `last` is
  /// another; elements that no piece has are zeros.
  ///   fails  Unsupported: a type that is not read. Value: cut short or damaged
  void read(const StoredTensor& tensor, const Box& part, char* out, std::size_t last = 0) const;
  /// The same to places that are so many elements apart, which are zeros before.
  void read(const StoredTensor& tensor, const Box& part, char* out, const Dims& stride,
            std::size_t last = 0) const;
  /// Fails with Value if no piece has some elements of a tensor.
  void check_whole(const StoredTensor& tensor) const;
  /// An object as Python prints it, one of an unknown class as its class and bytes.
  std::string print(const StoredObject& object) const;
  /// The rank that wrote a file, by its name; -1 where that says none.
  std::int64_t rank_of(std::size_t file) const;

 private:
  friend class CheckpointReader;
  FileBytes file(std::size_t index) const;
  StridedBytes elements_of(const StoredTensor& tensor, const StoredPiece& piece) const;

  std::string path_, folder_, format_;
  std::vector<std::string> files_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
  std::vector<StoredObject> objects_;
  std::vector<std::string> notes_;
};

/// Holes, then overlaps, at most `most` of each.
std::vector<PieceFault> faults_of(const StoredTensor& tensor, std::size_t most = 8);

}  // namespace shardlab
