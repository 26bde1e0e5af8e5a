// temporary_folder.h - a place for the files of a test.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace shardlab {

/// A folder of its own that is gone afterwards.
class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_(
            (std::filesystem::temp_directory_path() / ("shardlab_test_" + std::to_string(getpid())))
                .string()) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  /// Writes a file, with the folders of its name; its path.
  std::string write(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path file = path_ + "/" + name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file.string();
  }

 private:
  std::string path_;
};

}  // namespace shardlab
