// Libraries are asked in a child process with a time limit: one that crashes or hangs when it is
// opened is a fact about the system and must not end the doctor.
#include "sim/doctor/probe.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <array>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "backends/shared/module.h"

namespace shardlab {

namespace {

namespace fs = std::filesystem;

constexpr unsigned kSecondsToAnswer = 5;
constexpr std::size_t kLongestVersion = 4096;

struct Raw {
  std::uint32_t file = 0;  // index + 1; 0: none opened
  long number = 0;
  std::array<char, kLongestVersion> text{};
};

// The child's part; it may crash.
Raw ask(const Library& library) {
  Raw raw;
  for (std::size_t i = 0; i < library.files.size(); ++i) {
    void* const handle = dlopen(library.files[i].c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) continue;
    raw.file = static_cast<std::uint32_t>(i + 1);
    void* const symbol = dlsym(handle, library.ask.c_str());
    if (symbol == nullptr) break;
    if (library.form == AskForm::kNumber) {
      int version = 0;
      if (reinterpret_cast<int (*)(int*)>(symbol)(&version) == 0) raw.number = version;
    } else {
      int length = 0;
      reinterpret_cast<int (*)(char*, int*)>(symbol)(raw.text.data(), &length);
      raw.text.back() = '\0';
    }
    break;
  }
  return raw;
}

}  // namespace

std::string file_text(const MachineView& view, const std::string& path) {
  std::ifstream file(view.root + path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

std::string field_of(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t begin = line.find_first_not_of(" \t:", key.size());
    const std::size_t end = line.find_last_not_of(" \t\r");
    return begin == std::string::npos ? "" : line.substr(begin, end + 1 - begin);
  }
  return "";
}

std::vector<std::string> names_in(const MachineView& view, const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(view.root + folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string program_at(const MachineView& view, const std::string& name) {
  return backends::program_in(view.path, name);
}

LibraryAnswer ask_library(const Library& library) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    alarm(kSecondsToAnswer);
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    const Raw raw = ask(library);
    _exit(write(ends[1], &raw, sizeof raw) == sizeof raw ? 0 : 1);
  }
  ::close(ends[1]);
  Raw raw;
  std::size_t got = 0;
  while (child > 0 && got < sizeof raw) {
    const ssize_t size = read(ends[0], reinterpret_cast<char*>(&raw) + got, sizeof raw - got);
    if (size <= 0) break;
    got += static_cast<std::size_t>(size);
  }
  ::close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  if (got < sizeof raw || raw.file == 0) return {};
  return {library.files[raw.file - 1], raw.number, raw.text.data()};
}

}  // namespace shardlab
