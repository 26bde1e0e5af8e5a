// Counts are compared exactly and both ways: an op that starts or stops being refused fails the
// check, until the table is changed.
#include "tests/facts/chain_outcomes.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <set>

#include "tests/facts/chain_table.h"

namespace shardlab {

namespace {

using Named = std::map<std::string, std::int64_t>;

std::optional<Named> read_counts(const toml::table& root, std::string_view key) {
  const toml::table* table = root[key].as_table();
  if (table == nullptr) return std::nullopt;
  Named counts;
  for (const auto& [name, count] : *table) {
    counts[std::string(name.str())] = count.value_or(std::int64_t{-1});
  }
  return counts;
}

void compare_counts(const std::string& place, const Named& expected, const Named& got,
                    CheckSummary& summary) {
  std::set<std::string> names;
  for (const Named* counts : {&expected, &got}) {
    for (const auto& [name, count] : *counts) names.insert(name);
  }
  const auto count_in = [](const Named& counts, const std::string& name) {
    const auto found = counts.find(name);
    return found == counts.end() ? 0 : found->second;
  };
  for (const std::string& name : names) {
    const std::int64_t wanted = count_in(expected, name), found = count_in(got, name);
    if (wanted == found) continue;
    ++summary.failed;
    summary.failures.push_back(
        {place, name, fmt::format("{}", wanted), fmt::format("{}", found), ""});
  }
}

}  // namespace

ChainOutcomes ChainOutcomes::read(const std::string& path) {
  toml::table root;
  try {
    root = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    fail(ErrorKind::kValue, "{}: {}", path, error.description());
  }
  ChainOutcomes outcomes;
  const auto seed = root["seed"].value<std::int64_t>(), draws = root["draws"].value<std::int64_t>();
  if (!seed || !draws) fail(ErrorKind::kValue, "{}: 'seed' and 'draws' are missing", path);
  outcomes.options.seed = static_cast<std::uint64_t>(*seed);
  outcomes.options.draws = *draws;
  if (const toml::array* wrong = root["wrong"].as_array()) {
    for (const toml::node& id : *wrong) outcomes.options.still_wrong.insert(id.value_or(""));
  }
  outcomes.not_supported = read_counts(root, "not_supported");
  outcomes.refused = read_counts(root, "refused");
  return outcomes;
}

void ChainOutcomes::compare(const std::string& path, CheckSummary& summary) const {
  // Nothing is drawn for facts of other kinds.
  const auto* chains = dynamic_cast<const ChainTable*>(summary.chains.get());
  if (chains == nullptr && options.draws == 0) return;
  if (chains == nullptr) {
    ++summary.failed;
    summary.failures.push_back({path, "", "chain facts", "none were read", ""});
    return;
  }
  if (not_supported) {
    compare_counts(path + " [not_supported]", *not_supported, chains->not_supported(), summary);
  }
  if (refused) compare_counts(path + " [refused]", *refused, chains->refused(), summary);
}

}  // namespace shardlab
