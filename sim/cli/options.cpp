// The messages name the expected values.
#include "sim/cli/options.h"

#include <fmt/format.h>

#include <charconv>

namespace shardlab {

// CLI11's own validator would name a range up to 1.8e308.
CLI::Validator whole_number_from(std::int64_t lowest) {
  const auto complaint = [lowest](const std::string& text) -> std::string {
    std::int64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc() && stop == end && number >= lowest) return "";
    return fmt::format("'{}' is no whole number from {} on", text, lowest);
  };
  return {complaint, lowest > 0 ? "POSITIVE" : "NONNEGATIVE"};
}

}  // namespace shardlab
