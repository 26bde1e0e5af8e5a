// Asks the file system five times a second, with functions that every system has.
#include "sim/cli/watch.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "base/fix.h"
#include "sim/cli/commands.h"

namespace shardlab {

namespace {

namespace fs = std::filesystem;

using Stamps = std::set<std::pair<std::string, fs::file_time_type>>;

// Reports that a run writes into the folder must not start it again.
bool read_by_scenarios(const fs::path& path) {
  static constexpr std::string_view kEndings[] = {".toml", ".py", ".npy", ".graph"};
  return std::ranges::find(kEndings, path.extension().string()) != std::end(kEndings);
}

// The time of the last write of each file of the folders. A file may be removed meanwhile.
Stamps stamps_of(const std::set<fs::path>& folders) {
  Stamps stamps;
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      if (!read_by_scenarios(entry.path())) continue;
      std::error_code gone;
      const auto written = entry.last_write_time(gone);
      if (!gone && entry.is_regular_file(gone)) stamps.emplace(entry.path().string(), written);
    }
  }
  return stamps;
}

}  // namespace

void watch(const std::vector<std::string>& files, const std::function<int()>& command) {
  std::set<fs::path> folders;
  for (const std::string& file : files) {
    if (file == "-") {
      fail(Fix{"give the name of a file, or leave --watch out"},
           "--watch: standard input does not change");
    }
    const fs::path folder = fs::path(file).parent_path();
    folders.insert(folder.empty() ? fs::path(".") : folder);
  }
  for (;;) {
    const Stamps before = stamps_of(folders);
    if (isatty(STDOUT_FILENO)) print_text("\x1b[H\x1b[2J\x1b[3J");
    guarded(command);
    print_text("\nwaiting for a change; Ctrl-C ends\n");
    std::fflush(stdout);
    while (stamps_of(folders) == before) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  }
}

}  // namespace shardlab
