// Each process has a name for its host, and equal names are taken for the same host. A file
// for torchrun is written under another name first, so that nobody reads a part of it.
#include "backends/process/places.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "backends/process/wire.h"
#include "base/text.h"

namespace shardlab::process {

namespace {

enum class Existing { kKeep, kReplace };

// torchrun takes the earliest failure for the root cause, in whole seconds. A rank that it ends
// itself writes no file and may end in the second in which the culprit's is written.
constexpr std::chrono::seconds kCulprit{-1};
constexpr std::chrono::seconds kOthers{1};

std::string own_error_file() {
  const char* file = std::getenv("TORCHELASTIC_ERROR_FILE");
  return file == nullptr ? "" : file;
}

void write_error(const std::string& path, std::string_view text, std::chrono::seconds shift,
                 Existing existing) {
  if (path.empty()) return;
  const auto stamp = std::chrono::system_clock::now().time_since_epoch() + shift;
  const std::string quoted = escaped_text(text, "\\u{:04x}");
  const std::string written = fmt::format("{}.{}", path, getpid());
  std::ofstream(written) << fmt::format(
      R"({{"message": {{"message": "{0}", "extraInfo": {{"py_callstack": "{0}", )"
      R"("timestamp": "{1}"}}}}}})",
      quoted, std::chrono::duration_cast<std::chrono::seconds>(stamp).count());
  std::error_code another_was_first;
  if (existing == Existing::kKeep) {
    std::filesystem::create_hard_link(written, path, another_was_first);
    std::remove(written.c_str());
  } else {
    std::rename(written.c_str(), path.c_str());
  }
}

}  // namespace

std::string Places::mine() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  const char* named = std::getenv("SHARDLAB_HOST");
  return packed(named != nullptr ? named : name.data(), own_error_file());
}

Places::Places(const std::vector<std::string>& all) {
  std::map<std::string, std::int64_t> numbers;
  for (const std::string& place : all) {
    Reader reader(place);
    const bool known = !place.empty();
    const auto next = static_cast<std::int64_t>(numbers.size());
    hosts_.push_back(numbers.try_emplace(known ? reader.text() : "", next).first->second);
    error_files_.push_back(known ? reader.text() : "");
  }
}

bool Places::first_of_host(std::int64_t rank, std::span<const std::int64_t> gone) const {
  for (std::int64_t other = 0; other <= rank; ++other) {
    const bool here = hosts_.empty() || hosts_[static_cast<std::size_t>(other)] ==
                                            hosts_[static_cast<std::size_t>(rank)];
    if (here && !std::ranges::binary_search(gone, other)) return other == rank;
  }
  return false;
}

void Places::write_errors(std::int64_t rank, std::string_view text,
                          std::span<const std::int64_t> culprits) const {
  const auto of_host = [&](std::int64_t other) {
    return !hosts_.empty() &&
           hosts_[static_cast<std::size_t>(other)] == hosts_[static_cast<std::size_t>(rank)];
  };
  const bool culprit = culprits.empty() || std::ranges::find(culprits, rank) != culprits.end();
  for (const std::int64_t other : culprits) {
    if (other == rank || !of_host(other)) continue;
    write_error(error_files_[static_cast<std::size_t>(other)], text, kCulprit, Existing::kKeep);
  }
  write_error(own_error_file(), text, culprit ? kCulprit : kOthers, Existing::kReplace);
}

void write_own_error(std::string_view text) {
  write_error(own_error_file(), text, kCulprit, Existing::kReplace);
}

}  // namespace shardlab::process
