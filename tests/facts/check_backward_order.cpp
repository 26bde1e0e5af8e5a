// Facts about the order of backward: each program runs on one rank, watched. Programs with ops or
// language that do not exist yet are skipped, counted by the missing part.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "sim/files/json_value.h"
#include "sim/language/syntax/source.h"
#include "tests/facts/backward_order.h"
#include "tests/facts/fact_program.h"
#include "tests/facts/order_facts.h"

namespace shardlab {

namespace {

class OrderChecker : public FactChecker {
 public:
  void check(const Json& fact, CaseReport& report) override {
    std::optional<OrderWatcher> watcher;
    const auto watch = [&](const Scenario& scenario, std::int64_t first_line) {
      return watched(scenario,
                     watcher.emplace(ProgramLines{*scenario.program->source, first_line}));
    };
    programs_.run(fact, report, watch, [&] { compare(fact, watcher->passes(), report); });
  }

  void finish(CheckSummary& summary) override {
    summary.notes.push_back(fmt::format(
        "order of backward: {} passes, {} nodes, {} leaves written; of {} runs of lines "
        "{} are compared as one call",
        passes_, nodes_, leaves_, lines_, as_one_));
    programs_.add_notes(summary);
  }

 private:
  static FactScenarios::OnRank watched(const Scenario& scenario, OrderWatcher& watcher) {
    return {.sink = [&](RankContext&) -> ValueSink& { return watcher; },
            .run =
                [&](RankContext&, Interpreter& interpreter) {
                  for (const ScenarioInput& input : scenario.inputs) {
                    watcher.name_input(input.name, interpreter.find(input.name)->as<DTensor>());
                  }
                  const ObserverScope observed(watcher);
                  interpreter.run();
                }};
  }

  void compare(const Json& fact, const OrderedPasses& seen, CaseReport& report) {
    for (const Json& pass : fact.at("passes")) {
      ++passes_;
      for (const Json& entry : pass.at("order")) ++(entry.contains("leaf") ? leaves_ : nodes_);
    }
    const OrderTexts texts = order_texts(recorded_order(fact), seen);
    lines_ += texts.lines;
    as_one_ += texts.as_one;
    report.expect("passes", texts.recorded, texts.seen);
  }

  FactPrograms programs_;
  std::int64_t passes_ = 0, nodes_ = 0, leaves_ = 0;  // of the reference, compared
  std::int64_t lines_ = 0, as_one_ = 0;
};

}  // namespace

std::unique_ptr<FactChecker> make_order_checker(std::string_view) {
  return std::make_unique<OrderChecker>();
}

}  // namespace shardlab
