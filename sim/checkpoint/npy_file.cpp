// The header is a Python dict whose three keys are looked up by name; the elements follow it.
#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "sim/checkpoint/checkpoint_reader.h"
#include "tensor/tensor.h"

namespace shardlab {

namespace {

constexpr const char* kWriteAgain = "write it again with numpy.save";

// The text behind 'key': in the header.
std::string_view entry(const FileBytes& bytes, std::string_view header, std::string_view key) {
  const std::size_t at = header.find(fmt::format("'{}'", key));
  const std::size_t colon = at == std::string::npos ? at : header.find(':', at);
  if (colon == std::string::npos) {
    bytes.refuse(fmt::format("a broken .npy header, without '{}'", key), kWriteAgain);
  }
  return header.substr(std::min(header.find_first_not_of(' ', colon + 1), header.size()));
}

Dims shape_of(const FileBytes& bytes, std::string_view text) {
  constexpr std::size_t kMost = 64;
  const std::size_t close = text.find(')');
  bool fits = text.starts_with('(') && close != std::string_view::npos;
  Dims shape;
  const char* end = text.data() + (fits ? close : 0);
  for (const char* at = text.data() + 1; fits && at < end;) {
    if (*at == ' ' || *at == ',') {
      ++at;
      continue;
    }
    std::int64_t size = 0;
    const auto [stop, fault] = std::from_chars(at, end, size);
    fits = fault == std::errc() && size >= 0 && shape.size() < kMost;
    shape.push_back(size);
    at = stop;
  }
  if (!fits) bytes.refuse("a broken .npy header: no shape", kWriteAgain);
  return shape;
}

}  // namespace

void read_npy(CheckpointReader& reader, std::size_t file, WantedNames) {
  const FileBytes bytes = reader.open(file);
  const bool wide = bytes.number(6, 1) > 1;
  const std::uint64_t begin = wide ? 12 : 10, length = bytes.number(8, wide ? 4 : 2);
  const std::string header = bytes.text(begin, length);
  const std::string_view descr = entry(bytes, header, "descr");
  const std::string_view name = descr.substr(std::min<std::size_t>(1, descr.size()));
  const StoredType* type =
      stored_type(&StoredType::numpy, name.substr(0, name.find_first_of("'\"")));
  if (type == nullptr) {
    bytes.refuse("its dtype is not read",
                 "cast it to a little-endian f2 f4 f8 i1 i2 i4 i8 u1 u8 or b1: a.astype('<f4')");
  }
  const Dims shape = shape_of(bytes, entry(bytes, header, "shape"));
  Dims stride = contiguous_strides(shape);
  if (entry(bytes, header, "fortran_order").starts_with("True")) {
    Dims turned = shape;
    std::ranges::reverse(turned);
    stride = contiguous_strides(turned);
    std::ranges::reverse(stride);
  }
  const FileBytes data = bytes.part(begin + length, bytes.size() - begin - length);
  StridedBytes{.bytes = data, .item = type->bytes, .shape = shape, .stride = stride}.check();
  const std::string path = bytes.path().substr(bytes.path().rfind('/') + 1);
  reader.add(path.substr(0, path.rfind('.')), type, type->numpy,
             StoredPiece{.box = {Dims(shape.size()), shape},
                         .file = file,
                         .begin = begin + length,
                         .length = data.size(),
                         .stride = stride});
}

}  // namespace shardlab
