// Dumps with a known culprit: ranks named exactly, with frames and without; how often the word for
// the kind, and the line, are right is a note.
#include <fmt/format.h>

#include "sim/autopsy/autopsy.h"
#include "sim/autopsy/flight_values.h"
#include "sim/files/json_value.h"
#include "tests/facts/promise_facts.h"

namespace shardlab {
namespace {

Autopsy autopsy_of(const Json& dumps, bool frames, FlightWords& words) {
  FlightValues values(words);
  std::vector<FlightDump> all;
  for (const auto& [rank, dump] : dumps.items()) {
    Json one = dump;
    for (Json& entry : one.at("entries")) {
      if (!frames) entry.erase("frames");
    }
    all.push_back(flight_dump_of("rank_" + rank, one.dump(), values));
  }
  return autopsy_of(std::move(all), words);
}

class AutopsyChecker : public FactChecker {
 public:
  void check(const Json& fact, CaseReport& report) override {
    const Json& truth = fact.at("truth");
    FlightWords words, others;
    const Autopsy found = autopsy_of(fact.at("dumps"), true, words);
    report.expect("culprits", truth.at("culprits"), found.culprits);
    const Autopsy without = autopsy_of(fact.at("dumps"), false, others);
    if (!without.tie) report.expect("culprits without frames", found.culprits, without.culprits);
    if (truth.at("culprits").empty())
      report.expect("kind", truth.at("kind"), to_string(found.kind));
    ++cases_;
    kinds_ += truth.at("kind") == to_string(found.kind);
    const Json line = found.line == 0 ? Json() : Json(found.line);
    const bool blames = !truth.at("culprits").empty();
    lines_ += !blames || truth.at("line") == line;
  }

  void finish(CheckSummary& summary) override {
    summary.notes.push_back(
        fmt::format("autopsies: {} of {} kinds, {} lines", kinds_, cases_, lines_));
    if (20 * kinds_ < 19 * cases_ || 20 * lines_ < 19 * cases_) ++summary.failed;
  }

 private:
  std::int64_t cases_ = 0, kinds_ = 0, lines_ = 0;
};

}  // namespace

std::unique_ptr<FactChecker> make_autopsy_checker(std::string_view) {
  return std::make_unique<AutopsyChecker>();
}

}  // namespace shardlab
