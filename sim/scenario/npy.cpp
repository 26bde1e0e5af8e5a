// The header is a Python dict whose three keys are looked up by name; the data follow,
// little-endian and in C order. The size is checked against the file before anything is reserved.
#include "sim/scenario/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/dtype.h"
#include "base/error.h"
#include "base/fix.h"
#include "base/text_of_list.h"
#include "sim/record/stored_scalar.h"

namespace shardlab {

namespace {

struct FormatRow {
  std::string_view descr;
  std::size_t bytes;
  Scalar (*load)(const char*);
};
constexpr FormatRow kFormats[] = {
    {"<f4", 4, stored_scalar<float>},        {"<f8", 8, stored_scalar<double>},
    {"<f2", 2, stored_scalar<Half>},         {"<i8", 8, stored_scalar<std::int64_t>},
    {"<i4", 4, stored_scalar<std::int32_t>}, {"<i2", 2, stored_scalar<std::int16_t>},
    {"|i1", 1, stored_scalar<std::int8_t>},  {"|u1", 1, stored_scalar<std::uint8_t>},
    {"|b1", 1, stored_scalar<std::uint8_t>}, {"<u8", 8, stored_scalar<std::uint64_t>},
};

constexpr std::string_view kWriteAgain = "write the file again with numpy.save";

class NpyReader {
 public:
  NpyReader(const std::string& path, std::string bytes) : path_(path), bytes_(std::move(bytes)) {}

  NpyArray read() {
    read_header();
    if (entry("fortran_order").starts_with("True")) {
      refuse("is in Fortran order", "write it with numpy.ascontiguousarray");
    }
    const FormatRow& format = find_format();
    NpyArray out{read_shape(), {}};
    std::int64_t count = 1;
    for (const std::int64_t size : out.shape) {
      if (__builtin_mul_overflow(count, size, &count)) {
        refuse("has an impossible shape", kWriteAgain);
      }
    }
    const std::size_t available = (bytes_.size() - data_) / format.bytes;
    if (static_cast<std::uint64_t>(count) > available) {
      refuse("is too short for its shape", kWriteAgain);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      out.numbers.push_back(
          format.load(bytes_.data() + data_ + static_cast<std::size_t>(i) * format.bytes));
    }
    return out;
  }

 private:
  [[noreturn]] void refuse(std::string_view what, std::string_view fix) const {
    fail(ErrorKind::kValue, Fix{std::string(fix)}, "{} {}", path_, what);
  }

  void read_header() {
    constexpr std::string_view kMagic("\x93NUMPY", 6);
    if (bytes_.size() < 12 || !bytes_.starts_with(kMagic)) {
      refuse("is not an .npy file", kWriteAgain);
    }
    const auto byte = [&](std::size_t i) {
      return static_cast<std::size_t>(static_cast<unsigned char>(bytes_[i]));
    };
    const bool wide = byte(6) > 1;
    std::size_t length = byte(8) | byte(9) << 8;
    if (wide) length |= byte(10) << 16 | byte(11) << 24;
    const std::size_t start = wide ? 12 : 10;
    if (length > bytes_.size() - start) refuse("has a broken header", kWriteAgain);
    header_ = bytes_.substr(start, length);
    data_ = start + length;
  }

  // The text after 'key': in the header's dict.
  std::string_view entry(std::string_view key) const {
    const std::size_t at = header_.find("'" + std::string(key) + "'");
    const std::size_t colon = at == std::string::npos ? at : header_.find(':', at);
    if (colon == std::string::npos) refuse("has a broken header", kWriteAgain);
    const std::size_t value = header_.find_first_not_of(' ', colon + 1);
    return std::string_view(header_).substr(std::min(value, header_.size()));
  }

  const FormatRow& find_format() const {
    const std::string_view text = entry("descr");
    for (const FormatRow& row : kFormats) {
      if (text.substr(1).starts_with(row.descr)) return row;
    }
    refuse("holds a dtype that is not read here",
           "cast it to a little-endian f2 f4 f8 i1 i2 i4 i8 u1 u8 or b1: a.astype('<f4')");
  }

  Dims read_shape() const {
    std::string_view text = entry("shape");
    const std::size_t close = text.find(')');
    if (!text.starts_with('(') || close == std::string_view::npos) {
      refuse("has a broken header", kWriteAgain);
    }
    Dims shape;
    const char* at = text.data() + 1;
    const char* end = text.data() + close;
    while (at < end) {
      if (*at == ' ' || *at == ',') {
        ++at;
        continue;
      }
      std::int64_t size = 0;
      const auto [stop, fault] = std::from_chars(at, end, size);
      if (fault != std::errc() || size < 0) refuse("has a broken header", kWriteAgain);
      shape.push_back(size);
      at = stop;
    }
    return shape;
  }

  const std::string& path_;
  std::string bytes_;
  std::string header_;
  std::size_t data_ = 0;
};

}  // namespace

NpyArray read_npy(const std::string& path) {
  std::error_code fault;
  std::ifstream in(path, std::ios::binary);
  // Folders open, and devices may never end.
  if (!in || !std::filesystem::is_regular_file(path, fault)) {
    fail(ErrorKind::kValue,
         Fix{"give the path of an .npy file that is there, from the scenario's folder"},
         "{} cannot be read", path);
  }
  std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return NpyReader(path, std::move(bytes)).read();
}

std::string path_beside(const std::string& scenario, const std::string& file) {
  const std::size_t slash = scenario.rfind('/');
  const bool as_it_is = file.starts_with('/') || slash == std::string::npos;
  return as_it_is ? file : scenario.substr(0, slash + 1) + file;
}

std::vector<Scalar> read_input_file(const std::string& scenario, const ScenarioInput& input) {
  const std::string path = path_beside(scenario, input.file);
  NpyArray array;
  try {
    array = read_npy(path);
  } catch (const Error& error) {
    input.where.refuse(error.summary(), fix_of(error));
  }
  const auto& sizes = input.type.sizes;
  if (!std::equal(array.shape.begin(), array.shape.end(), sizes.begin(), sizes.end())) {
    input.where.refuse(
        fmt::format("{} has shape [{}], input '{}' has [{}]", path, text_of_list(array.shape, ", "),
                    input.name, text_of_list(sizes, ", ")),
        "give the input the shape of the file");
  }
  return std::move(array.numbers);
}

}  // namespace shardlab
