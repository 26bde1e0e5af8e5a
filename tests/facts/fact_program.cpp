// The program is in the text as it was recorded, so that its lines are those of the fact.
#include "tests/facts/fact_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/files/json_value.h"
#include "tests/facts/check.h"

namespace shardlab {

FactProgram fact_program(const Json& fact) {
  FactProgram program;
  std::string& text = program.text;
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
  program.first_line = 1 + std::ranges::count(text, '\n');
  text += fact.at("program").get<std::string>() + "\n'''\n";
  return program;
}

void FactPrograms::run(const Json& fact, CaseReport& report, const Prepare& prepare,
                       const std::function<void()>& compare) {
  const FactProgram program = fact_program(fact);
  Scenario scenario;
  try {
    scenario = scenarios_.read(fact.at("id").get<std::string>(), program.text);
  } catch (const Error& error) {
    return skip(error, report);
  }
  scenarios_.run(scenario, prepare(scenario, program.first_line), [&](const WorldResult& result) {
    if (result.ok()) return compare();
    const Error error = result.merged();
    if (error.kind() == ErrorKind::kUnsupported) return skip(error, report);
    report.differs("error", nullptr, error.text());
  });
  if (!report.differences().empty()) report.show_scenario(program.text);
}

void FactPrograms::skip(const Error& error, CaseReport& report) {
  ++missing_[error.summary()];
  report.skip(SkipReason::kNotSupported);
}

void FactPrograms::add_notes(CheckSummary& summary) const {
  for (const auto& [what, count] : missing_) {
    summary.notes.push_back(fmt::format("not supported in {} programs: {}", count, what));
  }
}

}  // namespace shardlab
