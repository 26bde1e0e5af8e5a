// Scenarios and facts are in folders of folders; other files next to them are left alone.
#include "sim/cli/files_below.h"

#include <algorithm>
#include <filesystem>

#include "base/fix.h"

namespace shardlab {

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
