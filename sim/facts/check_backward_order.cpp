// Facts about the order of backward: each program runs on one rank, watched. Programs with ops or
// language that do not exist yet are skipped, counted by what is missing.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/facts/backward_order.h"
#include "sim/facts/fact_program.h"
#include "sim/facts/fact_scenarios.h"
#include "sim/facts/order_facts.h"
#include "sim/language/source.h"

namespace shardlab {

namespace {

class OrderChecker : public FactChecker {
 public:
  void check(const Json& fact, CaseReport& report) override {
    const FactProgram text = fact_program(fact);
    Scenario scenario;
    try {
      scenario = scenarios_.read(fact.at("id").get<std::string>(), text.text);
    } catch (const Error& error) {
      return missing_.skip(error, report);
    }
    OrderWatcher watcher(*scenario.program->source, text.first_line);
    scenarios_.run(scenario, watched(scenario, watcher), [&](const WorldResult& result) {
      if (!result.ok()) {
        const Error error = result.merged();
        if (error.kind() == ErrorKind::kUnsupported) return missing_.skip(error, report);
        return report.differs("error", nullptr, error.text());
      }
      compare(fact, watcher.passes(), report);
    });
    if (!report.differences().empty()) report.show_scenario(text.text);
  }

  void finish(CheckSummary& summary) override {
    summary.notes.push_back(fmt::format(
        "order of backward: {} passes, {} nodes, {} leaves written; of {} runs of lines "
        "{} are compared as one call",
        passes_, nodes_, leaves_, lines_, as_one_));
    missing_.add_notes(summary);
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

  FactScenarios scenarios_;
  std::int64_t passes_ = 0, nodes_ = 0, leaves_ = 0;  // of the reference, compared
  std::int64_t lines_ = 0, as_one_ = 0;
  MissingParts missing_;
};

}  // namespace

std::unique_ptr<FactChecker> make_order_checker(std::string_view) {
  return std::make_unique<OrderChecker>();
}

}  // namespace shardlab
