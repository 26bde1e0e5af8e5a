// The largest unit of which there is at least one; beyond EiB the number grows.
#include "base/bytes_text.h"

#include <fmt/format.h>

#include <iterator>

namespace shardlab {

std::string bytes_text(double bytes) {
  static constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  const int digits = bytes >= 999.5 ? 4 : 3;  // "1000 KiB", not "1e+03 KiB"
  return unit == 0 ? fmt::format("{:.0f} B", bytes)
                   : fmt::format("{:.{}g} {}", bytes, digits, kUnits[unit]);
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace shardlab
