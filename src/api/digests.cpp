// Each rank gathers the digests of all ranks; rank 0 prints.
#include "api/digests.h"

#include <fmt/format.h>

#include <cstdio>

#include "api/groups.h"
#include "base/error.h"
#include "base/rank_context.h"
#include "mesh/type_string.h"
#include "trace/digest.h"

namespace shardlab {

namespace {

constexpr std::size_t kDigits = 16;

std::string hex(std::uint64_t digest) { return fmt::format("{:0{}x}", digest, kDigits); }

// Reads one number for each value, each of kDigits.
std::vector<std::uint64_t> read_digests(const std::string& text, std::size_t values) {
  if (text.size() != values * kDigits) {
    fail(ErrorKind::kRuntime, Fix{"give the same values on every rank"},
         "print_digests: a rank brings {} values, and this one {}", text.size() / kDigits, values);
  }
  std::vector<std::uint64_t> digests;
  for (std::size_t i = 0; i < values; ++i) {
    digests.push_back(std::stoull(text.substr(i * kDigits, kDigits), nullptr, 16));
  }
  return digests;
}

}  // namespace

void print_digests(const std::vector<std::pair<std::string, DTensor>>& values) {
  std::string own;
  for (const auto& [name, value] : values) own += hex(digest_of(value.local()));
  std::vector<std::vector<std::uint64_t>> by_rank;
  for (const std::string& text : world_group().communicator().all_gather_bytes(own)) {
    by_rank.push_back(read_digests(text, values.size()));
  }
  if (current_rank().rank != 0) return;
  std::string reported;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::vector<std::uint64_t> of_value;
    for (const auto& digests : by_rank) of_value.push_back(digests[i]);
    reported += fmt::format("{}  {}  {}\n", values[i].first, type_string(values[i].second),
                            hex(combined_digest(of_value)));
  }
  reported += "digests";
  for (const auto& digests : by_rank) reported += " " + hex(combined_digest(digests));
  std::printf("%s\n", reported.c_str());
}

}  // namespace shardlab
