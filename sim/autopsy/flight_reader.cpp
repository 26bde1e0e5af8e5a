// A file's form is known by its first byte.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "sim/autopsy/flight_values.h"
#include "sim/files/text_lines.h"

namespace shardlab {

namespace {

// The only rank that is in every group that has entries.
std::int64_t rank_of_groups(const FlightDump& dump) {
  std::vector<std::int64_t> common;
  bool first = true;
  for (const FlightGroup& group : dump.groups) {
    if (std::exchange(first, false)) {
      common = group.ranks;
      continue;
    }
    std::erase_if(common, [&](std::int64_t rank) {
      return std::ranges::find(group.ranks, rank) == group.ranks.end();
    });
  }
  return common.size() == 1 ? common[0] : -1;
}

}  // namespace

std::int64_t rank_in(std::string_view path) {
  for (const std::string_view ending : {".gz", ".json", ".pkl", ".pickle"}) {
    if (path.ends_with(ending)) path.remove_suffix(ending.size());
  }
  const std::size_t last = path.find_last_not_of("0123456789");
  const std::string_view digits = path.substr(last == std::string_view::npos ? 0 : last + 1);
  constexpr std::size_t kMostDigits = 9;
  if (digits.empty() || digits.size() > kMostDigits) return -1;
  return std::stoll(std::string(digits));
}

FlightDump read_flight_dump(const std::string& path, FlightValues& values) {
  return flight_dump_of(path, read_text(path), values);
}

FlightDump flight_dump_of(const std::string& path, const std::string& bytes, FlightValues& values) {
  FlightDump dump;
  dump.path = path;
  values.begin(dump);
  FlightTexts texts;
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  const bool json = first != std::string::npos && bytes[first] == '{';
  dump.cut = json ? !read_flight_json(path, bytes, values, texts)
                  : !read_flight_pickle(path, bytes, values);
  if (!values.finish()) {
    fail(ErrorKind::kValue, Fix{"give files of torch._C._distributed_c10d._dump_fr_trace"},
         "{}: no dump of a flight recorder", path);
  }
  std::ranges::sort(dump.entries, {}, &FlightEntry::record);
  constexpr std::int64_t kLast = std::int64_t{1} << 53;  // integers of JSON
  for (const FlightEntry& entry : dump.entries) {
    if (entry.record >= 0 && entry.record <= kLast) continue;
    fail(ErrorKind::kValue, Fix{"give the file as PyTorch wrote it"},
         "{}: records are numbered from 0, and one has {}", path, entry.record);
  }
  dump.rank = rank_in(path);
  if (dump.rank < 0) dump.rank = rank_of_groups(dump);
  if (dump.rank < 0) {
    fail(ErrorKind::kValue, Fix{"end its name with the rank: rank_3"}, "{}: whose dump is it?",
         path);
  }
  return dump;
}

}  // namespace shardlab
