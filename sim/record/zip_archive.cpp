// The directory at the end of an archive is the only list that counts; each file has a header of
// its own besides, behind which its bytes are.
#include "sim/record/zip_archive.h"

#include <zlib.h>

#include <algorithm>

#include "base/error.h"
#include "base/fix.h"

namespace shardlab {

namespace {

constexpr std::uint64_t kEnd = 0x06054b50, kWideEnd = 0x06064b50, kWideEndAt = 0x07064b50,
                        kInDirectory = 0x02014b50, kFile = 0x04034b50;
constexpr std::uint64_t kNarrow = 0xFFFFFFFF;  // the number is in a wide field
constexpr std::uint64_t kMostPacked = 1032;    // bytes that deflate makes of one

}  // namespace

struct ZipArchive::Entry {
  std::string name;
  std::uint64_t flags = 0, method = 0, sum = 0, packed = 0, size = 0, header = 0;
};

bool ZipArchive::begins(std::string_view bytes) { return bytes.starts_with("PK\x03\x04"); }

ZipArchive::ZipArchive(std::string path, std::string bytes)
    : path_(std::move(path)), bytes_(std::move(bytes)), held_(bytes_.size()) {
  for (std::uint64_t at = directory(); at + 4 <= held_ && number(at, 4) == kInDirectory;) {
    const Entry entry = entry_at(at);
    const Range range = unpacked(entry);
    const auto* begin = reinterpret_cast<const Bytef*>(bytes_.data() + range.begin);
    if (crc32_z(0, begin, range.size) != entry.sum) refuse(entry.name + " is damaged");
    files_[entry.name] = range;
  }
}

std::string_view ZipArchive::text(const Range& range) const {
  return std::string_view(bytes_).substr(range.begin, range.size);
}

void ZipArchive::refuse(const std::string& what) const {
  fail(ErrorKind::kValue, Fix{"write the file again"}, "{}: {}", path_, what);
}

std::uint64_t ZipArchive::number(std::uint64_t at, int width) const {
  if (at > held_ || held_ - at < static_cast<std::uint64_t>(width)) {
    refuse("the archive is cut short or damaged");
  }
  std::uint64_t value = 0;
  for (int i = width; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes_[at + static_cast<std::uint64_t>(i)]);
  }
  return value;
}

// The begin of the directory, which the last bytes say.
std::uint64_t ZipArchive::directory() const {
  constexpr std::uint64_t kLength = 22, kLongestComment = 65535, kLocator = 20;
  const std::uint64_t first =
      held_ > kLength + kLongestComment ? held_ - kLength - kLongestComment : 0;
  for (std::uint64_t at = held_ < kLength ? 0 : held_ - kLength + 1; at-- > first;) {
    if (number(at, 4) != kEnd) continue;
    const std::uint64_t begin = number(at + 16, 4);
    const bool wide = at >= kLocator && number(at - kLocator, 4) == kWideEndAt;
    if (!wide) return begin;
    const std::uint64_t end = number(at - kLocator + 8, 8);
    if (number(end, 4) != kWideEnd) break;
    return number(end + 48, 8);
  }
  refuse("the archive has no directory: it is cut short or damaged");
}

ZipArchive::Entry ZipArchive::entry_at(std::uint64_t& at) const {
  Entry entry{.name = {},
              .flags = number(at + 8, 2),
              .method = number(at + 10, 2),
              .sum = number(at + 16, 4),
              .packed = number(at + 20, 4),
              .size = number(at + 24, 4),
              .header = number(at + 42, 4)};
  const std::uint64_t name = number(at + 28, 2), extra = number(at + 30, 2),
                      comment = number(at + 32, 2), begin = at + 46;
  at = begin + name + extra + comment;
  if (at > held_) refuse("the archive's directory is cut short");
  entry.name = bytes_.substr(begin, name);
  wide_sizes(entry, begin + name, begin + name + extra);
  return entry;
}

// Sizes of 64 bits, in the order of those that the entry itself could not hold.
void ZipArchive::wide_sizes(Entry& entry, std::uint64_t from, std::uint64_t to) const {
  while (from + 4 <= to) {
    const std::uint64_t kind = number(from, 2), length = number(from + 2, 2);
    std::uint64_t at = from + 4;
    from = at + length;
    if (kind != 1) continue;
    for (std::uint64_t* size : {&entry.size, &entry.packed, &entry.header}) {
      if (*size != kNarrow || at + 8 > std::min(from, to)) continue;
      *size = number(at, 8);
      at += 8;
    }
  }
}

ZipArchive::Range ZipArchive::unpacked(const Entry& entry) {
  constexpr std::uint64_t kStored = 0, kDeflated = 8;
  const bool known = entry.method == kStored || entry.method == kDeflated;
  if ((entry.flags & 1) != 0 || !known) {
    fail(ErrorKind::kUnsupported, Fix{"store its files as they are"},
         "{}: {} is encrypted, or compressed by method {}", path_, entry.name, entry.method);
  }
  if (number(entry.header, 4) != kFile) refuse(entry.name + " is not where the directory says");
  const std::uint64_t begin =
      entry.header + 30 + number(entry.header + 26, 2) + number(entry.header + 28, 2);
  const bool inside = begin <= held_ && entry.packed <= held_ - begin;
  const bool fits = entry.method == kStored ? entry.size == entry.packed
                                            : entry.size / kMostPacked <= entry.packed;
  if (!inside || !fits) refuse(entry.name + " is cut short");
  if (entry.method == kStored) return {begin, entry.size};
  const Range range{bytes_.size(), entry.size};
  bytes_.resize(range.begin + range.size);
  z_stream stream = {};
  stream.next_in = reinterpret_cast<Bytef*>(bytes_.data() + begin);
  stream.next_out = reinterpret_cast<Bytef*>(bytes_.data() + range.begin);
  stream.avail_in = static_cast<uInt>(entry.packed);
  stream.avail_out = static_cast<uInt>(entry.size);
  // -15: no header; the largest window.
  bool whole = entry.packed <= kNarrow && entry.size <= kNarrow;
  whole = whole && inflateInit2(&stream, -15) == Z_OK;
  whole = whole && inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.avail_out == 0;
  inflateEnd(&stream);
  if (!whole) refuse(entry.name + " is damaged");
  return range;
}

}  // namespace shardlab
