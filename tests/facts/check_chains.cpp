// Chain facts: each program on one rank, where every input is a replica, and under drawn meshes and
// placements. A line passes when every run agrees or is refused under its placements.
#include <fmt/format.h>

#include "sim/files/json_value.h"
#include "tests/facts/chain_facts.h"
#include "tests/facts/chain_table.h"

namespace shardlab {

namespace {

class ChainChecker : public FactChecker {
 public:
  void begin(const CheckOptions& options, const std::string&) override { options_ = options; }

  void check(const Json& line, CaseReport& report) override {
    const ChainFact fact = chain_fact(line);
    const ChainVerdict alone = judge(fact, one_rank(fact), "one rank", false, report);
    // A program that is not supported on one rank is not tried with placements.
    if (alone.outcome == ChainOutcome::kNotSupported) {
      return report.skip(SkipReason::kNotSupported);
    }
    for (std::int64_t number = 0; number < options_.draws; ++number) {
      const ChainDraw draw = draw_placements(fact, options_.seed, number);
      judge(fact, draw, fmt::format("draw {} on {}", number, draw.mesh_text()), true, report);
    }
  }

  void finish(CheckSummary& summary) override {
    if (!summary.chains) {
      summary.chains = std::make_shared<ChainTable>(options_.seed, options_.draws);
    }
    if (table_) dynamic_cast<ChainTable&>(*summary.chains).add(*table_);
  }

 private:
  ChainVerdict judge(const ChainFact& fact, const ChainDraw& draw, const std::string& which,
                     bool drawn, CaseReport& report) {
    const ChainScenario scenario = chain_scenario(fact, draw);
    const ChainVerdict verdict = judge_chain(fact, run_chain(scenarios_, fact, scenario), drawn);
    if (!table_) table_.emplace(options_.seed, options_.draws);
    table_->count(fact, verdict, drawn);
    if (verdict.outcome == ChainOutcome::kWrong) {
      report.differs(fmt::format("{} in {}: {}", fact.id, which, verdict.field), verdict.expected,
                     verdict.got);
      report.show_scenario(scenario.text);
    }
    return verdict;
  }

  CheckOptions options_;
  FactScenarios scenarios_;
  std::optional<ChainTable> table_;
};

}  // namespace

std::unique_ptr<FactChecker> make_chain_checker(std::string_view) {
  return std::make_unique<ChainChecker>();
}

}  // namespace shardlab
