// The length of the header (8 bytes, little-endian), the header as JSON, the elements of all
// tensors. A file is written under another name first.
#include "api/files.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>

#include <nlohmann/json.hpp>

#include "api/collectives.h"
#include "api/factories.h"
#include "api/groups.h"
#include "autograd/at_place.h"
#include "autograd/grad_mode.h"
#include "base/error.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

using Json = nlohmann::ordered_json;

// The format's names: these, and for others ours in capitals.
std::string name_in_file(DType dtype) {
  if (dtype == DType::kF8E4M3FN) return "F8_E4M3";
  if (dtype == DType::kC128 || dtype == DType::kC32 || dtype == DType::kBC32) {
    fail(ErrorKind::kUnsupported, Fix{"save the two parts: view_as_real"},
         "save: safetensors has no dtype {}", to_string(dtype));
  }
  std::string name(to_string(dtype));
  for (char& letter : name) letter = static_cast<char>(std::toupper(letter));
  return name;
}

std::optional<DType> dtype_in_file(const std::string& name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const bool none = dtype == DType::kC128 || dtype == DType::kC32 || dtype == DType::kBC32;
    if (!none && name_in_file(dtype) == name) return dtype;
  }
  return std::nullopt;
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  fail(Fix{"give a file of the format safetensors"}, "load: {}: {}", path, why);
}

DTensor read_tensor(const std::string& path, const std::string& name, const Json& entry,
                    std::string_view data) {
  const std::optional<DType> dtype = dtype_in_file(entry.at("dtype").get<std::string>());
  if (!dtype) refuse(path, fmt::format("{} has dtype {}", name, entry.at("dtype").dump()));
  const auto shape = entry.at("shape").get<std::vector<std::int64_t>>();
  const auto [begin, end] = entry.at("data_offsets").get<std::pair<std::size_t, std::size_t>>();
  const auto bytes = static_cast<std::size_t>(product(Dims(shape)) * item_bytes(*dtype));
  if (begin > end || end > data.size() || end - begin != bytes) {
    refuse(path,
           fmt::format("{} has {} bytes from byte {} on, of {}", name, bytes, begin, data.size()));
  }
  return from_bytes(std::as_bytes(std::span(data.substr(begin, bytes))), Dims(shape), *dtype);
}

}  // namespace

void save(const std::string& path, const std::vector<std::pair<std::string, DTensor>>& values,
          SourceLine place) {
  at_place(place, [&] {
    const NoGradGuard guard;
    Json header = Json::object();
    std::string data;
    const bool writes = current_rank().rank == 0;
    for (const auto& [name, value] : values) {
      const DTensor whole = value.distributed() ? value.full_tensor() : value;
      if (!writes) continue;
      const std::vector<std::byte> bytes = read_bytes(whole.local());
      const std::vector<std::int64_t> shape(whole.shape().begin(), whole.shape().end());
      header[name] = {{"dtype", name_in_file(whole.dtype())},
                      {"shape", shape},
                      {"data_offsets", {data.size(), data.size() + bytes.size()}}};
      data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    if (writes) {
      const std::string text = header.dump(), written = path + ".part";
      const std::uint64_t length = text.size();
      std::ofstream file(written, std::ios::binary);
      file.write(reinterpret_cast<const char*>(&length), sizeof length);
      file << text << data;
      file.close();
      if (!file || std::rename(written.c_str(), path.c_str()) != 0) {
        fail(Fix{"give a path in a folder that is there and may be written to"},
             "save: {} cannot be written", path);
      }
    }
    barrier(world_group());
  });
}

NamedTensors load(const std::string& path, SourceLine place) {
  return at_place(place, [&] {
    std::ifstream file(path, std::ios::binary);
    const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::uint64_t length = 0;
    if (!file) refuse(path, "it cannot be read");
    if (all.size() >= sizeof length) std::memcpy(&length, all.data(), sizeof length);
    if (length == 0 || length > all.size() - sizeof length) refuse(path, "it has no header");
    const std::string_view data = std::string_view(all).substr(sizeof length + length);
    NamedTensors values;
    try {
      const auto begin = all.begin() + sizeof length;
      const Json header = Json::parse(begin, begin + static_cast<std::ptrdiff_t>(length));
      for (const auto& [name, entry] : header.items()) {
        if (name != "__metadata__") values[name] = read_tensor(path, name, entry, data);
      }
    } catch (const Json::exception& error) {
      refuse(path, error.what());
    }
    return values;
  });
}

}  // namespace shardlab
