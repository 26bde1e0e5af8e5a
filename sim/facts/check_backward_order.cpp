// Facts about the order of backward: each program runs on one rank, watched. Programs with ops or
// language that do not exist yet are skipped, counted by what is missing.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/facts/backward_order.h"
#include "sim/facts/fact_scenarios.h"
#include "sim/facts/order_facts.h"
#include "sim/language/source.h"

namespace shardlab {

namespace {

struct OrderScenario {
  std::string text;
  std::int64_t first_line = 0;  // of the program
};

OrderScenario scenario_of(const Json& fact) {
  OrderScenario scenario;
  std::string& text = scenario.text;
  text =
      fmt::format("title = \"{}\"\n[mesh]\ndp = 1\n[inputs]\n", fact.at("id").get<std::string>());
  for (const auto& [name, input] : fact.at("inputs").items()) {
    const std::string type = input.at("type").get<std::string>();
    const bool random_bool = type.starts_with("bool") && !input.contains("init");
    const std::string init = random_bool ? "randint(0, 2)" : input.value("init", "randn");
    text += fmt::format("{} = {{ type = \"{}\", init = \"{}\"{} }}\n", name, type, init,
                        input.at("requires_grad").get<bool>() ? ", requires_grad = true" : "");
  }
  text += "[program]\ncode = '''\n";
  scenario.first_line = 1 + std::ranges::count(text, '\n');
  text += fact.at("program").get<std::string>() + "\n'''\n";
  return scenario;
}

class OrderChecker : public FactChecker {
 public:
  void check(const Json& fact, CaseReport& report) override {
    const OrderScenario text = scenario_of(fact);
    Scenario scenario;
    try {
      scenario = scenarios_.read(fact.at("id").get<std::string>(), text.text);
    } catch (const Error& error) {
      return skip(error, report);
    }
    OrderWatcher watcher(*scenario.program->source, text.first_line);
    scenarios_.run(scenario, watched(scenario, watcher), [&](const WorldResult& result) {
      if (!result.ok()) {
        const Error error = result.merged();
        if (error.kind() == ErrorKind::kUnsupported) return skip(error, report);
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
    for (const auto& [what, count] : missing_) {
      summary.notes.push_back(fmt::format("not supported in {} programs: {}", count, what));
    }
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

  void skip(const Error& error, CaseReport& report) {
    ++missing_[error.summary()];
    report.skip(SkipReason::kNotSupported);
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
  std::map<std::string, std::int64_t> missing_;
};

}  // namespace

std::unique_ptr<FactChecker> make_order_checker(std::string_view) {
  return std::make_unique<OrderChecker>();
}

}  // namespace shardlab
