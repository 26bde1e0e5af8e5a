// Facts about the bytes that a program holds: each runs on one rank, whose account is watched.
// Another library's kernels may have other temporaries: there figures agree up to the largest
// tensor.
#include <cstdlib>
#include <optional>

#include "sim/files/json_value.h"
#include "tests/facts/fact_program.h"
#include "tests/facts/memory_facts.h"
#include "tests/facts/memory_watcher.h"

namespace shardlab {

namespace {

Json backwards_json(const std::vector<MemoryAtBackward>& backwards) {
  Json all = Json::array();
  for (const MemoryAtBackward& at : backwards) {
    all.push_back({{"line", at.line},
                   {"live", at.live},
                   {"grads", at.gradients},
                   {"saved", at.saved},
                   {"kept", at.kept},
                   {"saved_inputs", at.saved_inputs}});
  }
  return all;
}

/// The fields of it that are compared.
Json recorded_backwards(const Json& fact) {
  Json all = fact.at("backward");
  for (Json& at : all) at.erase("named");
  return all;
}

std::string_view phase_text(Pass pass) { return pass == Pass::kForward ? "forward" : "backward"; }

/// The place of the peak, if no other place comes within `tolerance` of it.
const MemoryPlace* peak_place(const MemoryWatcher& seen, std::int64_t tolerance) {
  const MemoryPlace* place = nullptr;
  for (const auto& [each, bytes] : seen.by_place()) {
    if (bytes < seen.account().peak_bytes - tolerance) continue;
    if (place != nullptr) return nullptr;
    place = &each;
  }
  return place;
}

class PeaksChecker : public FactChecker {
 public:
  void check(const Json& fact, CaseReport& report) override {
    std::optional<MemoryWatcher> watcher;
    const auto watch = [&](const Scenario& scenario, std::int64_t first_line) {
      return watched(fact, watcher.emplace(ProgramLines{*scenario.program->source, first_line}));
    };
    programs_.run(fact, report, watch, [&] { compare(fact, *watcher, report); });
  }

  void finish(CheckSummary& summary) override { programs_.add_notes(summary); }

 private:
  static FactScenarios::OnRank watched(const Json& fact, MemoryWatcher& watcher) {
    return {.sink = [&](RankContext&) -> ValueSink& { return watcher; },
            .run =
                [&](RankContext&, Interpreter& interpreter) {
                  std::vector<std::string> inputs;
                  for (const auto& [name, input] : fact.at("inputs").items()) {
                    inputs.push_back(name);
                  }
                  watcher.run(inputs, interpreter);
                },
            .begins = [&](RankContext& rank) { watcher.watch(rank); }};
  }

  static void compare(const Json& fact, const MemoryWatcher& seen, CaseReport& report) {
    const std::int64_t largest = integer_of<std::int64_t>(fact.at("largest"));
    const auto within = [&](std::string_view field, const Json& recorded, std::int64_t bytes,
                            std::int64_t tolerance) {
      const bool near = std::abs(integer_of<std::int64_t>(recorded) - bytes) <= tolerance;
      if (!near) report.differs(field, recorded, bytes);
    };
    const Json& maxima = fact.at("maxima");
    report.expect("backward", recorded_backwards(fact), backwards_json(seen.backwards()));
    report.expect("end", fact.at("end"), seen.end_bytes());
    within("peak", fact.at("peak"), seen.account().peak_bytes, largest);
    within("maxima.inputs", maxima.at("inputs"), seen.most(HeldFor::kInput), 0);
    within("maxima.grads", maxima.at("grads"), seen.most_gradients(), 0);
    within("maxima.saved", maxima.at("saved"), seen.most(HeldFor::kBackward), largest);
    within("maxima.other", maxima.at("other"), seen.most_other(), 2 * largest);
    if (const MemoryPlace* place = peak_place(seen, largest)) {
      report.expect("peak_line", fact.at("peak_line"), place->first);
      report.expect("peak_phase", fact.at("peak_phase"), phase_text(place->second));
    }
  }

  FactPrograms programs_;
};

}  // namespace

std::unique_ptr<FactChecker> make_peaks_checker(std::string_view) {
  return std::make_unique<PeaksChecker>();
}

}  // namespace shardlab
