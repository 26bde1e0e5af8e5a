// Pipeline schedules and small programs on each transport, against the verdicts of an enumeration
// of every interleaving.
#include "sim/files/json_value.h"
#include "sim/prove/pipeline_schedule.h"
#include "tests/facts/promise_facts.h"
#include "tests/support/schedule_text.h"

namespace shardlab {
namespace {

Json refused_json(const CheckedSchedule& checked) {
  Json all = Json::array();
  for (const RefusedAction& one : checked.refused) {
    all.push_back({one.rank, one.index, one.action, one.reason});
  }
  return all;
}

Json stuck_json(const PipelineSchedule& schedule, const CheckedSchedule& checked,
                const StepsOutcome& outcome) {
  Json all = Json::array();
  for (const StuckRank& one : outcome.stuck) {
    const auto rank = static_cast<std::size_t>(one.rank);
    const std::int32_t cell = checked.steps.at(one.rank, one.step).place;
    const bool sends = one.waits_for.kind == Operation::Kind::kSend;
    all.push_back({one.rank, cell, to_string(schedule.ranks[rank][static_cast<std::size_t>(cell)]),
                   sends ? "send" : "recv", one.waits_for.peer});
  }
  return all;
}

class ScheduleChecker : public FactChecker {
 public:
  void check(const Json& fact, CaseReport& report) override {
    const auto& csv = fact.at("csv").get_ref<const std::string&>();
    const PipelineSchedule schedule = read_pipeline_schedule(csv, Receives::kEarly);
    const CheckedSchedule checked = check_schedule(schedule);
    const Json& truth = fact.at("truth");
    report.expect("refused", truth.at("refused"), refused_json(checked));
    report.expect("misdelivered_count", truth.at("misdelivered_count"),
                  wrong_messages(checked.steps).size());
    for (const auto& [name, model] : truth.at("models").items()) {
      const StepsOutcome outcome =
          run_steps(checked.steps, {.transport = parse_transport(name).value()});
      report.expect(name, model.at("verdict"), outcome.ends() ? "ok" : "deadlock");
      if (!outcome.ends()) {
        report.expect(name + ".stuck", model.at("stuck"), stuck_json(schedule, checked, outcome));
      }
    }
    const std::optional<std::int64_t> buffers = least_buffers(checked.steps);
    report.expect("least_buffers", truth.at("least_buffers"), buffers ? Json(*buffers) : Json());
    if (!fact.contains("compute_only_csv")) return;
    const Receives receives =
        fact.at("deferred").get<bool>() ? Receives::kDeferred : Receives::kEarly;
    const auto& computed = fact.at("compute_only_csv").get_ref<const std::string&>();
    report.expect("csv", csv, csv_of(read_pipeline_schedule(computed, receives)));
  }
};

class StepProgramChecker : public FactChecker {
 public:
  void check(const Json& fact, CaseReport& report) override {
    RankSteps program;
    std::map<std::string, std::int32_t> groups;
    for (const auto& [name, ranks] : fact.at("groups").items()) {
      groups[name] = static_cast<std::int32_t>(program.groups.size());
      program.groups.push_back(integers_of(ranks));
    }
    for (const Json& rank : fact.at("ranks")) {
      std::vector<RankStep>& steps = program.ranks.emplace_back();
      std::vector<std::int32_t> posts;
      for (const Json& step : rank) {
        RankStep& one = steps.emplace_back();
        if (step.at(0) == "wait") {
          one.needs = {posts.at(integer_of<std::size_t>(step.at(1)))};
          continue;
        }
        posts.push_back(static_cast<std::int32_t>(steps.size()) - 1);
        for (const Json& what : step.at(1)) one.posts.push_back(operation(what, groups));
      }
    }
    for (const auto& [name, verdict] : fact.at("truth").items()) {
      const bool ends = run_steps(program, {.transport = parse_transport(name).value()}).ends();
      report.expect(name, verdict, ends ? "ok" : "deadlock");
    }
  }

 private:
  static Operation operation(const Json& what, const std::map<std::string, std::int32_t>& groups) {
    if (what.at(0) == "coll") {
      return {.group = groups.at(what.at(1).get<std::string>())};
    }
    const bool sends = what.at(0) == "send";
    return {.kind = sends ? Operation::Kind::kSend : Operation::Kind::kReceive,
            .group = groups.at("world"),
            .peer = integer_of<std::int32_t>(what.at(1))};
  }
};

}  // namespace

std::unique_ptr<FactChecker> make_schedule_checker(std::string_view) {
  return std::make_unique<ScheduleChecker>();
}

std::unique_ptr<FactChecker> make_step_program_checker(std::string_view) {
  return std::make_unique<StepProgramChecker>();
}

}  // namespace shardlab
