// Each program runs on as many ranks as it was recorded on, and must leave on each rank the
// recorded values; a rank that failed, or waited for one that did, must not reach its end here.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/torch_dtype.h"
#include "sim/files/json_value.h"
#include "sim/language/values/dict_entries.h"
#include "tensor/host.h"
#include "tests/facts/collective_facts.h"
#include "tests/facts/fact_scenarios.h"

namespace shardlab {

namespace {

Json json_of_number(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  return number;
}

Json tensor_of(const Tensor& tensor) {
  Json data = Json::array();
  if (tensor.dtype() == DType::kBool) {
    for (const std::int64_t value : read_integers(tensor)) data.push_back(value != 0);
  } else if (is_integral(tensor.dtype())) {
    for (const std::int64_t value : read_integers(tensor)) data.push_back(value);
  } else {
    for (const double value : read_doubles(tensor)) data.push_back(json_of_number(value));
  }
  return {{"dtype", to_string(tensor.dtype())}, {"shape", tensor.shape()}, {"data", data}};
}

// Writes a value as the recorder does; null for a kind that it does not write.
Json json_of_value(const Value& value) {
  const auto items = [](const Values& values) {
    Json list = Json::array();
    for (const Value& item : values) list.push_back(json_of_value(item));
    return list;
  };
  if (const auto* tensor = value.get<DTensor>()) return tensor_of(tensor->local());
  if (is_outside(value)) return {{"value", kNonGroupMember}};
  if (value.is_none()) return {{"value", nullptr}};
  if (const auto* flag = value.get<bool>()) return {{"value", *flag}};
  if (value.is_integer()) return {{"value", std::get<0>(number_of(value))}};
  if (const auto* real = value.get<double>()) return {{"value", json_of_number(*real)}};
  if (const auto* text = value.get<std::string>()) return {{"value", *text}};
  if (value.is<ListValue>()) return {{"list", items(items_of(value))}};
  if (value.is<TupleValue>()) return {{"tuple", items(items_of(value))}};
  if (kind_name(value) == "work") return {{"work", true}};
  const auto* dict = value.get<DictValue>();
  if (dict == nullptr) return nullptr;
  Json entries = Json::array();
  for (const auto& [key, item] : *dict->entries) {
    entries.push_back({json_of_value(key), json_of_value(item)});
  }
  return {{"dict", entries}};
}

// torch's names of dtypes as ours.
void rename_dtypes(Json& json) {
  for (Json& part : json) {
    if (part.is_structured()) rename_dtypes(part);
  }
  if (!json.is_object() || !json.contains("dtype")) return;
  const auto dtype = parse_torch_dtype(json.at("dtype").get<std::string>());
  if (dtype) json["dtype"] = to_string(*dtype);
}

// The outcome of one rank.
struct Ended {
  Json values = Json::object();
  bool whole = false;       ///< it reached the end of the program
  std::int32_t line = 0;    ///< of the program, from 1: where it failed
  std::int32_t run_by = 0;  ///< of a gradient: the line that called backward, which torch reports
};

class Names final : public ValueSink {
 public:
  void assigned(const std::string&, std::int64_t, const Value&, const Where&) override {}
  void printed(const std::string&) override {}
};

constexpr std::int32_t kFirstLine = 5;  // of the program, in the scenario

std::string scenario_text(const Json& fact) {
  return fmt::format("title = \"{}\"\n[mesh]\nx = {}\n[program]\ncode = '''\n{}'''\n",
                     fact.at("id").get<std::string>(), integer_of<std::int64_t>(fact.at("world")),
                     fact.at("collectives").get<std::string>());
}

class CollectiveChecker final : public FactChecker {
 public:
  void check(const Json& fact, CaseReport& report) override {
    const std::string text = scenario_text(fact);
    const bool refused = fact.value("refused", false);
    Json expected = fact.at(fact.contains("meant") ? "meant" : "ranks");
    rename_dtypes(expected);
    run(fact, text);
    if (fact.contains("row")) check_row(fact, report);
    if (refused) {
      report.expect("comes to its end", false, came_to_end());
    } else {
      compare(expected, report);
    }
    if (!report.differences().empty()) report.show_scenario(text);
  }

 private:
  void run(const Json& fact, const std::string& text) {
    const auto ranks = static_cast<std::size_t>(integer_of<std::int64_t>(fact.at("world")));
    ended_.assign(ranks, {});
    error_.clear();
    Scenario scenario;
    try {
      scenario = scenarios_.read(fact.at("id").get<std::string>(), text);
    } catch (const Error& error) {  // the same on all ranks, before they run
      error_ = error.text();
      for (Ended& one : ended_) one.line = -1;
      return;
    }
    std::vector<Names> sinks(ranks);
    FactScenarios::OnRank on_rank;
    on_rank.sink = [&](RankContext& rank) -> ValueSink& {
      return sinks[static_cast<std::size_t>(rank.rank)];
    };
    on_rank.run = [&](RankContext& rank, Interpreter& interpreter) {
      Ended& ended = ended_[static_cast<std::size_t>(rank.rank)];
      try {
        interpreter.run();
      } catch (const Error& error) {
        ended.line = rank.position.line - kFirstLine;
        const std::string* run_by = error.find("run by");  // "file:line:column"
        if (run_by != nullptr) {
          const std::size_t column = run_by->rfind(':');
          const std::size_t line = run_by->rfind(':', column - 1) + 1;
          ended.run_by = std::stoi(run_by->substr(line, column - line)) - kFirstLine;
        }
        throw;
      } catch (...) {
        ended.line = rank.position.line - kFirstLine;
        throw;
      }
      ended.whole = true;
      for (const std::string& name : interpreter.names()) {
        Json value = json_of_value(*interpreter.find(name));
        if (!value.is_null()) ended.values[name] = std::move(value);
      }
    };
    scenarios_.run(scenario, on_rank, [&](const WorldResult& result) {
      if (!result.ok()) error_ = result.merged().text();
    });
  }

  // A row says that torch differs here.
  void check_row(const Json& fact, CaseReport& report) const {
    const Json& ranks = fact.at("ranks");
    const Json same = fact.value("meant", Json());
    if (ranks == same) report.differs("row", fact.at("row"), "torch does what is meant");
    const auto ends = [](const Json& rank) { return rank.contains("values"); };
    if (fact.value("refused", false) && !std::ranges::all_of(ranks, ends)) {
      report.differs("row", fact.at("row"), "torch refuses it, too");
    }
  }

  void compare(const Json& expected, CaseReport& report) const {
    const auto fails = [](const Json& rank) { return !rank.contains("values"); };
    if (std::ranges::any_of(expected, fails)) return compare_failure(expected, report);
    if (!error_.empty()) return report.differs("error", nullptr, error_);
    for (std::size_t rank = 0; rank < ended_.size(); ++rank) {
      for (const auto& [name, value] : expected[rank].at("values").items()) {
        const Json got = ended_[rank].values.value(name, Json());
        report.expect(fmt::format("{} on rank {}", name, rank), value, got);
      }
    }
  }

  // At the line of a rank that failed, or waited for one that had.
  void compare_failure(const Json& expected, CaseReport& report) const {
    report.expect("comes to its end", false, came_to_end());
    std::vector<std::int32_t> lines;
    for (const Json& rank : expected) {
      if (rank.contains("line")) lines.push_back(rank.at("line"));
    }
    const bool known = std::ranges::any_of(ended_, [&](const Ended& one) {
      return one.line == -1 || std::ranges::count(lines, one.line) > 0 ||
             std::ranges::count(lines, one.run_by) > 0;
    });
    if (!known) report.differs("line", lines, error_);
  }

  bool came_to_end() const { return error_.empty() && std::ranges::all_of(ended_, &Ended::whole); }

  FactScenarios scenarios_;
  std::vector<Ended> ended_;  // by rank
  std::string error_;         // empty: none
};

}  // namespace

std::unique_ptr<FactChecker> make_collective_checker(std::string_view) {
  return std::make_unique<CollectiveChecker>();
}

}  // namespace shardlab
