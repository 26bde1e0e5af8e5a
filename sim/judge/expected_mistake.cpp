// A mistake is identified by its cause and by the line to look at. Ranks that wait for each other
// wait at several lines, unless one branch has separated them.
#include "sim/judge/expected_mistake.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace shardlab {

std::optional<std::int64_t> line_in(std::string_view place) {
  std::optional<std::int64_t> line;
  for (int part = 0; part < 2; ++part) {
    const std::size_t colon = place.rfind(':');
    if (colon == std::string_view::npos) break;
    std::int64_t number = 0;
    const char* end = place.data() + place.size();
    const auto read = std::from_chars(place.data() + colon + 1, end, number);
    if (read.ec != std::errc() || read.ptr != end) break;
    line = number;
    place = place.substr(0, colon);
  }
  return line;
}

namespace {

Mistake failure_of(const Run& run, const Cause& parted) {
  Mistake mistake{.text = run.error->summary()};
  if (!parted.empty()) return {parted.id, {parted.line}, parted.text};
  const auto add = [&](const std::string& place) {
    const auto line = line_in(place);
    if (line && std::ranges::count(mistake.lines, *line) == 0) mistake.lines.push_back(*line);
  };
  if (run.verdict) {
    for (const RankReport& rank : run.verdict->ranks) add(rank.where);
  }
  const std::string* at = run.error->find("at");
  if (at != nullptr && mistake.lines.empty()) add(*at);
  return mistake;
}

ExpectationReport report_on(std::string what, const std::string& expected, const std::string& got,
                            bool met, const std::string& text, const Where& where) {
  return {.what = std::move(what),
          .met = met,
          .text = met ? expected : fmt::format("expected {}, got {}: {}", expected, got, text),
          .where = where,
          .of_failure = true};
}

}  // namespace

// Values have a cause, calls do not. A value that is wrong comes before one that differs.
std::optional<Mistake> mistake_of(const Run& run, const Findings& found) {
  if (run.error) return failure_of(run, found.parted);
  for (const Outcome outcome : {Outcome::kWrong, Outcome::kDiffers}) {
    const ValueReport* first = nullptr;
    for (const ValueReport& value : found.values) {
      if (value.outcome() != outcome) continue;
      if (first == nullptr || (first->cause.empty() && !value.cause.empty())) first = &value;
    }
    if (first != nullptr) {
      const std::string& what = outcome == Outcome::kWrong ? first->comparison.what : first->reason;
      return Mistake{first->cause.id,
                     {line_of_cause(*first)},
                     first->cause.empty() ? what : first->cause.text,
                     first};
    }
    const bool wrong = outcome == Outcome::kWrong && found.steps.wrong.has_value();
    if (wrong) {
      return Mistake{{}, {found.steps.wrong->place.position.line}, found.steps.wrong->text()};
    }
  }
  return std::nullopt;
}

bool check_mistake(const Run& run, const Findings& found, std::vector<ExpectationReport>& reports) {
  const ExpectedMistake& expected = *run.scenario.expect.mistake;
  const std::optional<Mistake> mistake = mistake_of(run, found);
  const std::string text = mistake ? mistake->text : "nothing is wrong";
  bool met = true;
  // Shapes tell of an error where ranks part; other causes are those of values.
  const bool unknown = run.shapes_only() && run.error && mistake->cause.empty() &&
                       expected.cause != causes::kPartedBranch;
  if (!expected.cause.empty() && !unknown) {
    const bool fits = mistake && mistake->cause == expected.cause;
    const std::string got =
        mistake && !mistake->cause.empty() ? std::string(mistake->cause) : "none";
    reports.push_back(report_on("cause", expected.cause, got, fits, text, expected.cause_where));
    met = fits;
  }
  if (expected.line > 0) {
    const bool fits = mistake && std::ranges::count(mistake->lines, expected.line) > 0;
    const std::string got =
        mistake && !mistake->lines.empty() ? text_of_list(mistake->lines, " or ") : "none";
    reports.push_back(
        report_on("line", fmt::format("{}", expected.line), got, fits, text, expected.line_where));
    met = met && fits;
  }
  return met;
}

}  // namespace shardlab
