// zip_archive.h - the files in a zip archive.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "sim/checkpoint/file_bytes.h"

namespace shardlab {

/// Only its directory is kept; files are read when they are asked for. Not for archives of several
/// disks, nor encrypted ones.
class ZipArchive {
 public:
  struct Entry {
    std::uint64_t flags = 0, method = 0, sum = 0, packed = 0, size = 0, header = 0;
  };

  /// Whether the bytes begin as those of an archive do.
  static bool begins(std::string_view bytes) { return bytes.starts_with("PK\x03\x04"); }

  ///   fails  Value: its directory is cut short or damaged
  explicit ZipArchive(FileBytes bytes);

  const std::map<std::string, Entry, std::less<>>& files() const { return files_; }
  /// The bytes of a file as they are in the archive.
  ///   fails  Value: no such file; cut short or damaged. Unsupported: it is compressed, encrypted
  FileBytes stored(std::string_view name) const;
  /// A whole file, unpacked; its checksum is compared, unless that is 0: PyTorch may leave it out.
  ///   fails  as stored, but for compression by deflate
  std::string text(std::string_view name) const;
  /// The same bytes, left in the archive if they are not packed; no checksum is compared then.
  FileBytes open(std::string_view name) const;

 private:
  const Entry& entry(std::string_view name) const;
  FileBytes packed(std::string_view name, const Entry& entry, bool compressed) const;

  FileBytes bytes_;
  std::map<std::string, Entry, std::less<>> files_;
};

}  // namespace shardlab
