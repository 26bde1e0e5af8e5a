// Values are compared as `diff` compares them: by name and global index, within what rounding
// explains in both.
#include "sim/cli/blame_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/fix.h"
#include "dispatch/all_ops.h"
#include "sim/cli/failing_point.h"
#include "sim/cli/run_arguments.h"
#include "sim/files/json_value.h"
#include "sim/report/run_diff.h"
#include "sim/report/run_json.h"
#include "sim/verify/kept_value.h"

namespace shardlab {

namespace {

Json run_of(const std::string& file, const RunArguments& arguments) {
  if (!file.ends_with(".toml") && file.ends_with(".json")) {
    std::vector<Json> runs = read_runs(file);
    if (runs.size() == 1) return std::move(runs.front());
    fail(Fix{"give a file with one of them"}, "{}: {} runs, of which one is meant", file,
         runs.size());
  }
  const Scenario scenario = failing_point(scenario_files({file}).front(), arguments);
  ScenarioOptions options = options_of(arguments, scenario);
  options.keep_elements = kKeepAll;
  return parsed_json(run_json(run_scenario(scenario, all_ops(), options)));
}

std::string cause_text(const Json& value) {
  return fmt::format("{} [{}], line {}", value.at("cause").get<std::string>(),
                     value.at("cause_id").get<std::string>(), value.at("cause_line").dump());
}

// A value that has no outcome of its own: the cause of a later one that is made in its line.
std::string part_of_cause(const Json& run, const Json& value) {
  const std::string at = value.value("at", "");
  const std::string line = at.substr(0, at.rfind(':'));
  for (const Json& other : run.at("values")) {
    if (!other.contains("cause") || !line.ends_with(":" + other.at("cause_line").dump())) continue;
    return fmt::format("is part of the cause of {}: {}", other.at("name").get<std::string>(),
                       cause_text(other));
  }
  return "is part of the cause: " + value.value("reason", "");
}

// The word of one device on it.
std::string verdict_text(const Json& run, const Json& value) {
  const Json* own = same_value(run, value);
  if (own == nullptr) return "has none";
  if (own->value("row", "") == "C") return part_of_cause(run, *own);
  if (!own->contains("verdict")) return "is not verified";
  if (own->at("verdict") != "wrong") return "agrees with one device";
  return "is wrong: " + (own->contains("cause") ? cause_text(*own) : own->value("what", ""));
}

// The value of A, or of B, that a difference is about, in the order of the run.
struct DifferentValue {
  const Json* value = nullptr;
  std::string text;
};

std::vector<DifferentValue> different_values(const Json& a, const Json& b) {
  std::vector<DifferentValue> all;
  for (const Difference& one : diff_values(a, b).differences) {
    for (const Json* run : {&a, &b}) {
      const auto found = std::ranges::find(run->at("values"), one.about, about_value);
      if (found == run->at("values").end()) continue;
      all.push_back({&*found, one.text.substr(one.text.rfind('\n') + 1)});
      break;
    }
  }
  std::ranges::stable_sort(all, {}, [](const DifferentValue& one) {
    return integer_or<std::size_t>(*one.value, "event", 0);
  });
  return all;
}

std::string named(const Json& value) {
  const std::string name = value.at("name").get<std::string>();
  return value.contains("at") ? fmt::format("{} ({})", name, value["at"].get<std::string>()) : name;
}

}  // namespace

int blame_runs(const BlameArguments& arguments) {
  const Json a = run_of(arguments.file, arguments.run), b = run_of(arguments.other, arguments.run);
  const std::vector<DifferentValue> all = different_values(a, b);
  Json out = {{"ok", all.empty()}, {"differ", Json::array()}};
  for (const DifferentValue& one : all) {
    out["differ"].push_back({{"name", one.value->at("name")},
                             {"at", one.value->value("at", "")},
                             {"text", one.text},
                             {"a", verdict_text(a, *one.value)},
                             {"b", verdict_text(b, *one.value)}});
  }
  std::string text = fmt::format("A: {}, B: {}\n", arguments.file, arguments.other);
  if (all.empty()) {
    text += diff_values(a, b).text + ": no value differs\n";
  } else {
    const DifferentValue& first = all.front();
    text += fmt::format("{} is the first of {} values that differ\n  {}\n  A {}\n  B {}\n",
                        named(*first.value), all.size(), first.text, verdict_text(a, *first.value),
                        verdict_text(b, *first.value));
    for (std::size_t i = 1; i < all.size(); ++i) {
      text += fmt::format("  {} {}\n", i == 1 ? "then" : "    ", named(*all[i].value));
    }
  }
  print_text(arguments.run.common.json ? json_line(out) + "\n" : text);
  return all.empty() ? kFine : kFailed;
}

}  // namespace shardlab
