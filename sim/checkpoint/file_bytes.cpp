// Bytes are read into memory of ours and not mapped: a file that another program cuts short then
// ends the read, and not the process.
#include "sim/checkpoint/file_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace shardlab {

struct FileBytes::Held {
  Held(int file, std::string bytes) : file(file), bytes(std::move(bytes)) {}
  ~Held() {
    if (file >= 0) close(file);
  }
  Held& operator=(Held&&) = delete;

  int file;  // -1: bytes in memory
  std::string bytes;
};

FileBytes::FileBytes(std::string path, std::string bytes)
    : path_(std::move(path)),
      held_(std::make_shared<const Held>(-1, std::move(bytes))),
      size_(held_->bytes.size()) {}

FileBytes FileBytes::open(const std::string& path) {
  FileBytes opened(path, "");
  opened.held_ = std::make_shared<const Held>(::open(path.c_str(), O_RDONLY | O_CLOEXEC), "");
  struct stat about {};
  // Folders open, and devices may never end.
  const bool regular =
      opened.held_->file >= 0 && fstat(opened.held_->file, &about) == 0 && S_ISREG(about.st_mode);
  if (!regular) {
    fail(Fix{"give the path of a file that is there"}, "{} cannot be read", path);
  }
  opened.size_ = static_cast<std::uint64_t>(about.st_size);
  return opened;
}

void FileBytes::refuse(std::string_view what) const {
  fail(Fix{"write the file again"}, "{}: {}", path_, what);
}

void FileBytes::refuse(std::string_view what, std::string fix) const {
  fail(Fix{std::move(fix)}, "{}: {}", path_, what);
}

void FileBytes::check(std::uint64_t begin, std::uint64_t size) const {
  if (begin <= size_ && size <= size_ - begin) return;
  refuse(fmt::format(
      "{} bytes from byte {} on are expected, and it has {}: it is cut short or damaged", size,
      begin, size_));
}

FileBytes FileBytes::part(std::uint64_t begin, std::uint64_t size) const {
  check(begin, size);
  FileBytes part = *this;
  part.begin_ += begin;
  part.size_ = size;
  return part;
}

void FileBytes::read(std::uint64_t begin, std::uint64_t size, char* out) const {
  check(begin, size);
  if (held_->file < 0) {
    std::memcpy(out, held_->bytes.data() + begin_ + begin, size);
    return;
  }
  for (std::uint64_t done = 0; done < size;) {
    const ssize_t got =
        pread(held_->file, out + done, size - done, static_cast<off_t>(begin_ + begin + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) refuse(fmt::format("it cannot be read from byte {} on", begin + done));
    done += static_cast<std::uint64_t>(got);
  }
}

std::string FileBytes::text(std::uint64_t begin, std::uint64_t size) const {
  check(begin, size);
  std::string text(size, '\0');
  read(begin, size, text.data());
  return text;
}

std::uint64_t FileBytes::number(std::uint64_t at, int width) const {
  std::array<char, 8> bytes{};
  read(at, static_cast<std::uint64_t>(width), bytes.data());
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace shardlab
