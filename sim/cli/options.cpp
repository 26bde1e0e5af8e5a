// The messages name the expected values.
#include "sim/cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/error.h"

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

// Scenarios and facts are in folders of folders; other files next to them are left alone.

std::vector<std::string> files_below(const std::string& path,
                                     std::initializer_list<std::string_view> endings,
                                     std::string_view what) {
  if (!std::filesystem::is_directory(path)) return {path};
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    const std::string name = entry.path().string();
    const bool wanted = std::ranges::any_of(
        endings, [&](std::string_view ending) { return name.ends_with(ending); });
    if (wanted) found.push_back(name);
  }
  if (found.empty()) {
    fail(Fix{fmt::format("give a file, or a folder that has {}", what)}, "no {} ({} files) in {}",
         what, *endings.begin(), path);
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace shardlab
