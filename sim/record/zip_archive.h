// zip_archive.h - the files in a zip archive, as ranges of its bytes.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace shardlab {

/// Files that are stored are where they are in the archive; compressed ones are unpacked behind it.
class ZipArchive {
 public:
  struct Range {
    std::size_t begin = 0, size = 0;
  };

  /// Whether the bytes begin as those of an archive do.
  static bool begins(std::string_view bytes);

  /// Reads the directory and checks every file.
  ///   fails  Value: cut short or damaged. Unsupported: encrypted, or of another compression
  ZipArchive(std::string path, std::string bytes);

  const std::map<std::string, Range, std::less<>>& files() const { return files_; }
  std::string_view text(const Range& range) const;
  /// All bytes, in which the ranges are; the archive is used up.
  std::string take() && { return std::move(bytes_); }

 private:
  struct Entry;

  [[noreturn]] void refuse(const std::string& what) const;
  std::uint64_t number(std::uint64_t at, int width) const;
  std::uint64_t directory() const;
  Entry entry_at(std::uint64_t& at) const;
  void wide_sizes(Entry& entry, std::uint64_t from, std::uint64_t to) const;
  Range unpacked(const Entry& entry);

  std::string path_;
  std::string bytes_;
  std::size_t held_ = 0;  // of the archive itself
  std::map<std::string, Range, std::less<>> files_;
};

}  // namespace shardlab
