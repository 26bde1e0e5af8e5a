// chain_table.h - counts of chain facts that agreed, were wrong, were refused or are not supported,
// by tag and by the op refused or the part missing.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "tests/facts/chain_judge.h"
#include "tests/facts/check.h"

namespace shardlab {

/// Adds up verdicts; tables of several files are put together with add(). Used by one thread.
class ChainTable final : public CheckTable {
 public:
  /// `draws`: runs of each program under drawn placements, in addition to the one on one rank.
  ChainTable(std::uint64_t seed, std::int64_t draws) : seed_(seed), draws_(draws) {}

  void count(const ChainFact& fact, const ChainVerdict& verdict, bool drawn);
  /// Adds the counts of another table of the same seed and draws.
  void add(const ChainTable& other);

  /// Runs that were wrong, on one rank or under drawn placements.
  std::int64_t wrong() const;
  /// Programs by the missing part.
  const std::map<std::string, std::int64_t>& not_supported() const { return not_supported_; }
  /// Runs under drawn placements by the op that refused.
  const std::map<std::string, std::int64_t>& refused() const { return refused_; }

  /// The table for people: a line per tag, then refusals and missing parts with their counts.
  std::string text() const override;
  Json json() const override;

 private:
  using Counts = std::array<std::int64_t, 4>;  // by ChainOutcome
  struct Row {
    Counts one_rank{}, drawn{};
  };

  std::uint64_t seed_;
  std::int64_t draws_;
  Row all_;
  std::map<std::string, Row> by_tag_;
  std::map<std::string, std::int64_t> not_supported_;
  std::map<std::string, std::int64_t> refused_;
};

}  // namespace shardlab
