// file_bytes.h - the bytes of a file, read only where they are asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace shardlab {

/// A file, a part of one, or bytes in memory. Copies share the open file; any number of threads may
/// read.
class FileBytes {
 public:
  ///   fails  Value: no regular file, or one that cannot be read
  static FileBytes open(const std::string& path);
  /// Bytes in memory; `path`: for messages.
  FileBytes(std::string path, std::string bytes);

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  std::uint64_t begin() const { return begin_; }  ///< in the whole file

  /// The next three fail with Value if the bytes are not all there.
  FileBytes part(std::uint64_t begin, std::uint64_t size) const;
  void read(std::uint64_t begin, std::uint64_t size, char* out) const;
  std::string text(std::uint64_t begin, std::uint64_t size) const;
  /// A little-endian number of at most 8 bytes.
  std::uint64_t number(std::uint64_t at, int width) const;

  /// A message about this file, with the advice to write it again.
  ///   fails  Value
  [[noreturn]] void refuse(std::string_view what) const;
  [[noreturn]] void refuse(std::string_view what, std::string fix) const;  ///< other advice

 private:
  struct Held;
  void check(std::uint64_t begin, std::uint64_t size) const;

  std::string path_;
  std::shared_ptr<const Held> held_;
  std::uint64_t begin_ = 0, size_ = 0;
};

}  // namespace shardlab
