// A header of safetensors is JSON; those of ranks have one more in it as a text, with the places of
// their pieces. Files of .npy have a Python dict whose three keys are looked up by name.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "sim/checkpoint/checkpoint_reader.h"
#include "tensor/tensor.h"

extern template class nlohmann::basic_json<>;

namespace shardlab {

namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kPlace = 8;  // of the header: behind its size

Json parsed(const FileBytes& bytes, const std::string& text) {
  constexpr int kDeepest = 8;
  Json json = Json::parse(
      text,
      [&](int depth, Json::parse_event_t, Json&) {
        if (depth > kDeepest)
          bytes.refuse("the header is damaged: it is nested too deep", "write it again");
        return true;
      },
      false);
  if (!json.is_object()) bytes.refuse("the header is damaged: no JSON object");
  return json;
}

// The list of sizes of a field; empty if the object has none.
std::optional<Dims> sizes_in(const Json& object, const char* field) {
  constexpr std::size_t kMost = 64;
  const auto found = object.is_object() ? object.find(field) : object.end();
  if (found == object.end() || !found->is_array() || found->size() > kMost) return std::nullopt;
  Dims sizes;
  for (const Json& size : *found) {
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() > INT64_MAX) return std::nullopt;
    sizes.push_back(size.get<std::int64_t>());
  }
  return sizes;
}

std::string text_in(const Json& object, const char* field) {
  const auto found = object.is_object() ? object.find(field) : object.end();
  return found == object.end() || !found->is_string() ? "" : found->get<std::string>();
}

struct Entry {
  std::string name, dtype;
  Dims shape, from;
  std::uint64_t begin, end;
};

// In the order of their bytes.
std::vector<Entry> entries_of(const FileBytes& bytes, const Json& header, std::uint64_t held) {
  const std::string sharding = text_in(header.value("__metadata__", Json()), "DCP_SHARDING_INFO");
  const Json places = sharding.empty() ? Json::object() : parsed(bytes, sharding);
  std::vector<Entry> entries;
  for (const auto& [name, json] : header.items()) {
    if (name == "__metadata__") continue;
    const auto shape = sizes_in(json, "shape"), data = sizes_in(json, "data_offsets");
    const std::string dtype = text_in(json, "dtype");
    const StoredType* type = stored_type(&StoredType::safetensors, dtype);
    const auto from = sizes_in(places.value(name, Json()), "saved_offsets");
    const bool fits =
        shape && data && data->size() == 2 && (*data)[0] <= (*data)[1] &&
        static_cast<std::uint64_t>((*data)[1]) <= held &&
        (!from || from->size() == shape->size()) &&
        (type == nullptr || product(Dims{product(*shape), type->bytes}) == (*data)[1] - (*data)[0]);
    if (!fits) {
      bytes.refuse(fmt::format(
          "the header is damaged: '{}' is {}, and there are {} bytes", name,
          json.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 200), held));
    }
    entries.push_back({name, dtype, *shape, from.value_or(Dims(shape->size())),
                       static_cast<std::uint64_t>((*data)[0]),
                       static_cast<std::uint64_t>((*data)[1])});
  }
  std::ranges::stable_sort(entries, {}, &Entry::begin);
  return entries;
}

}  // namespace

bool is_safetensors(const FileBytes& bytes) {
  return bytes.size() > kPlace && bytes.text(kPlace, 1) == "{";
}

void read_safetensors(CheckpointReader& reader, std::size_t file, WantedNames wanted) {
  constexpr std::uint64_t kMost = 100'000'000;  // as the format has it
  const FileBytes bytes = reader.open(file);
  const std::uint64_t size = bytes.number(0, 8);
  if (size > kMost || size > bytes.size() - kPlace) {
    bytes.refuse(
        fmt::format("a header of {} bytes is expected, and it has {}", size, bytes.size()));
  }
  const std::uint64_t data = kPlace + size;
  std::size_t left_out = 0;
  for (const Entry& entry :
       entries_of(bytes, parsed(bytes, bytes.text(kPlace, size)), bytes.size() - data)) {
    if (wanted != nullptr && !wanted->contains(entry.name)) {
      ++left_out;
      continue;
    }
    reader.add(entry.name, stored_type(&StoredType::safetensors, entry.dtype), entry.dtype,
               StoredPiece{.box = {entry.from, entry.shape},
                           .file = file,
                           .begin = data + entry.begin,
                           .length = entry.end - entry.begin});
  }
  if (left_out > 0) {
    reader.note(fmt::format("{}: {} of its tensors are not read: the index has them elsewhere",
                            bytes.path(), left_out));
  }
}

std::map<std::string, std::set<std::string>> read_index(const FileBytes& bytes) {
  std::map<std::string, std::set<std::string>> names;
  const Json index = parsed(bytes, bytes.text(0, bytes.size()));
  const Json map = index.value("weight_map", Json::object());
  for (const auto& [name, file] : map.items()) {
    if (file.is_string()) names[file.get<std::string>()].insert(name);
  }
  if (names.empty())
    bytes.refuse("it has no weight_map of names and files", "give the index of a checkpoint");
  return names;
}

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
