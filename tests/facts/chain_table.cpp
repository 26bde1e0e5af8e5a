// Sums by outcome and tag. Tables of several files add up.
#include "tests/facts/chain_table.h"

#include <fmt/format.h>

#include "sim/files/json_value.h"

namespace shardlab {

namespace {

using Named = std::map<std::string, std::int64_t>;

void add_all(Named& sums, const Named& more) {
  for (const auto& [name, count] : more) sums[name] += count;
}

std::string listed(const Named& counts, std::string_view title) {
  std::string text;
  for (const auto& [name, count] : counts) text += fmt::format("  {:>5}  {}\n", count, name);
  return text.empty() ? text : fmt::format("{}:\n{}", title, text);
}

constexpr const char* kNames[] = {"agree", "wrong", "refused", "not supported"};

}  // namespace

void ChainTable::count(const ChainFact& fact, const ChainVerdict& verdict, bool drawn) {
  const auto outcome = static_cast<std::size_t>(verdict.outcome);
  const auto count = [&](Row& row) { ++(drawn ? row.drawn : row.one_rank)[outcome]; };
  count(all_);
  for (const std::string& tag : fact.tags) count(by_tag_[tag]);
  if (verdict.outcome == ChainOutcome::kNotSupported) ++not_supported_[verdict.reason];
  if (verdict.outcome == ChainOutcome::kRefused) ++refused_[verdict.reason];
}

void ChainTable::add(const ChainTable& other) {
  const auto add = [](Row& row, const Row& more) {
    for (std::size_t i = 0; i < row.drawn.size(); ++i) {
      row.one_rank[i] += more.one_rank[i];
      row.drawn[i] += more.drawn[i];
    }
  };
  add(all_, other.all_);
  for (const auto& [tag, row] : other.by_tag_) add(by_tag_[tag], row);
  add_all(not_supported_, other.not_supported_);
  add_all(refused_, other.refused_);
}

std::int64_t ChainTable::wrong() const {
  constexpr auto kWrong = static_cast<std::size_t>(ChainOutcome::kWrong);
  return all_.one_rank[kWrong] + all_.drawn[kWrong];
}

std::string ChainTable::text() const {
  const auto line = [](std::string_view tag, const Row& row) {
    return fmt::format("{:<13} {:>7} {:>6} {:>14} {:>10} {:>7} {:>8}\n", tag, row.one_rank[0],
                       row.one_rank[1], row.one_rank[3], row.drawn[0], row.drawn[1], row.drawn[2]);
  };
  std::string text = fmt::format(
      "chains, seed {}, {} drawn placements each\n"
      "{:<13} {:>7} {:>6} {:>14} {:>10} {:>7} {:>8}\n",
      seed_, draws_, "one rank:", "agree", "wrong", "not supported", "drawn:", "wrong", "refused");
  for (const auto& [tag, row] : by_tag_) text += line(tag, row);
  text += line("all", all_);
  text += listed(not_supported_, "not supported, programs by what is missing");
  return text + listed(refused_, "refused under drawn placements, runs by op");
}

nlohmann::json ChainTable::json() const {
  const auto counts = [](const Counts& row) {
    nlohmann::json object;
    for (std::size_t i = 0; i < row.size(); ++i) object[kNames[i]] = row[i];
    return object;
  };
  const auto both = [&](const Row& row) {
    return nlohmann::json{{"one_rank", counts(row.one_rank)}, {"drawn", counts(row.drawn)}};
  };
  nlohmann::json tags = nlohmann::json::object();
  for (const auto& [tag, row] : by_tag_) tags[tag] = both(row);
  return {{"seed", seed_},
          {"draws", draws_},
          {"all", both(all_)},
          {"by_tag", tags},
          {"not_supported", not_supported_},
          {"refused", refused_}};
}

}  // namespace shardlab
