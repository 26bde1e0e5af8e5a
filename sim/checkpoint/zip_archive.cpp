// The directory at the end of an archive is the only list that counts; each file has a header of
// its own besides, behind which its bytes are.
#include "sim/checkpoint/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace shardlab {

namespace {

constexpr std::uint64_t kEnd = 0x06054b50, kWideEnd = 0x06064b50, kWideEndAt = 0x07064b50,
                        kInDirectory = 0x02014b50, kFile = 0x04034b50;
constexpr std::uint64_t kNarrow = 0xFFFFFFFF;  // the number is in a wide field
constexpr std::uint64_t kMostPacked = 1032;    // bytes that deflate makes of one
constexpr std::uint64_t kStored = 0, kDeflated = 8;

struct Range {
  std::uint64_t begin, size;
};

// The directory, as the last bytes give it; `last` of them are looked through.
std::optional<Range> directory_of(const FileBytes& bytes, std::uint64_t last) {
  constexpr std::uint64_t kLength = 22, kLocator = 20;
  const std::uint64_t held = bytes.size(), first = held - std::min(held, last);
  const FileBytes tail(bytes.path(), bytes.text(first, held - first));
  for (std::uint64_t at = tail.size() < kLength ? 0 : tail.size() - kLength + 1; at-- > 0;) {
    if (tail.number(at, 4) != kEnd) continue;
    const std::uint64_t end = first + at;
    const bool wide = end >= kLocator && bytes.number(end - kLocator, 4) == kWideEndAt;
    if (!wide) return Range{tail.number(at + 16, 4), tail.number(at + 12, 4)};
    const std::uint64_t begin = bytes.number(end - kLocator + 8, 8);
    if (bytes.number(begin, 4) != kWideEnd) break;
    return Range{bytes.number(begin + 48, 8), bytes.number(begin + 40, 8)};
  }
  return std::nullopt;
}

// Sizes of 64 bits, in the order of those that the entry itself could not hold.
void read_wide(const FileBytes& fields, ZipArchive::Entry& entry) {
  for (std::uint64_t from = 0; from + 4 <= fields.size();) {
    const std::uint64_t kind = fields.number(from, 2), length = fields.number(from + 2, 2);
    std::uint64_t at = from + 4;
    from = at + length;
    if (kind != 1) continue;
    for (std::uint64_t* size : {&entry.size, &entry.packed, &entry.header}) {
      if (*size != kNarrow || at + 8 > std::min(from, fields.size())) continue;
      *size = fields.number(at, 8);
      at += 8;
    }
  }
}

}  // namespace

ZipArchive::ZipArchive(FileBytes bytes) : bytes_(std::move(bytes)) {
  constexpr std::uint64_t kLength = 22, kLongestComment = 65535;
  auto range = directory_of(bytes_, kLength);
  if (!range) range = directory_of(bytes_, kLength + kLongestComment);
  if (!range) bytes_.refuse("the archive has no directory: it is cut short or damaged");
  const FileBytes list(bytes_.path(), bytes_.text(range->begin, range->size));
  for (std::uint64_t at = 0; at + 4 <= list.size() && list.number(at, 4) == kInDirectory;) {
    Entry entry{.flags = list.number(at + 8, 2),
                .method = list.number(at + 10, 2),
                .sum = list.number(at + 16, 4),
                .packed = list.number(at + 20, 4),
                .size = list.number(at + 24, 4),
                .header = list.number(at + 42, 4)};
    const std::uint64_t name = list.number(at + 28, 2), extra = list.number(at + 30, 2);
    read_wide(list.part(at + 46 + name, extra), entry);
    files_[list.text(at + 46, name)] = entry;
    at += 46 + name + extra + list.number(at + 32, 2);
  }
}

const ZipArchive::Entry& ZipArchive::entry(std::string_view name) const {
  const auto found = files_.find(name);
  if (found == files_.end()) bytes_.refuse(fmt::format("the archive has no file {}", name));
  return found->second;
}

FileBytes ZipArchive::packed(std::string_view name, const Entry& entry, bool compressed) const {
  if ((entry.flags & 1) != 0 ||
      (entry.method != kStored && (!compressed || entry.method != kDeflated))) {
    fail(ErrorKind::kUnsupported, Fix{"store its files as they are"},
         "{}: {} is encrypted, or compressed by method {}", bytes_.path(), name, entry.method);
  }
  if (bytes_.number(entry.header, 4) != kFile) {
    bytes_.refuse(fmt::format("{} is not where the directory says", name));
  }
  const std::uint64_t names =
      bytes_.number(entry.header + 26, 2) + bytes_.number(entry.header + 28, 2);
  const bool fits = entry.method == kStored ? entry.size == entry.packed
                                            : entry.size / kMostPacked <= entry.packed;
  if (!fits) bytes_.refuse(fmt::format("{} is cut short or damaged", name));
  return bytes_.part(entry.header + 30 + names, entry.packed);
}

FileBytes ZipArchive::stored(std::string_view name) const {
  return packed(name, entry(name), false);
}

FileBytes ZipArchive::open(std::string_view name) const {
  if (entry(name).method == kStored) return stored(name);
  return FileBytes(std::string(name), text(name));
}

std::string ZipArchive::text(std::string_view name) const {
  const Entry& entry = this->entry(name);
  const FileBytes packed = this->packed(name, entry, true);
  std::string text = packed.text(0, packed.size());
  bool whole = true;
  if (entry.method == kDeflated) {
    std::string unpacked(entry.size, '\0');
    z_stream stream = {};
    stream.next_in = reinterpret_cast<Bytef*>(text.data());
    stream.next_out = reinterpret_cast<Bytef*>(unpacked.data());
    stream.avail_in = static_cast<uInt>(text.size());
    stream.avail_out = static_cast<uInt>(unpacked.size());
    // -15: no header; the largest window.
    whole = text.size() <= kNarrow && unpacked.size() <= kNarrow;
    whole = whole && inflateInit2(&stream, -15) == Z_OK;
    whole = whole && inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.avail_out == 0;
    inflateEnd(&stream);
    text = std::move(unpacked);
  }
  const auto* begin = reinterpret_cast<const Bytef*>(text.data());
  whole = whole && (entry.sum == 0 || crc32_z(0, begin, text.size()) == entry.sum);
  if (!whole) bytes_.refuse(fmt::format("{} is damaged", name));
  return text;
}

}  // namespace shardlab
