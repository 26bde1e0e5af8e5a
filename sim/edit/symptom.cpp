// Numbers in a text become one mark, lists of them, too, so that a smaller shape reads the same.
#include "sim/edit/symptom.h"

#include <cctype>
#include <set>

#include "base/text.h"
#include "sim/judge/expected_mistake.h"

namespace shardlab {

namespace {

std::string without_numbers(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    const bool digit = std::isdigit(static_cast<unsigned char>(letter)) != 0;
    if (!digit) {
      out += letter;
    } else if (!out.ends_with('#') && !out.ends_with("#, ")) {
      out += '#';
    } else if (out.ends_with("#, ")) {
      out.resize(out.size() - 2);
    }
  }
  return out;
}

// The calls that ranks wait in, and whether for one that has ended.
std::string detail_of(const Verdict& verdict) {
  if (verdict.kind == VerdictKind::kMismatch) return without_numbers(verdict.cause);
  std::set<std::string> states;
  for (const RankReport& rank : verdict.ranks) {
    const bool ended = rank.state == RankReport::State::kEnded;
    states.insert(ended ? "ended" : rank.what.substr(0, rank.what.find('(')));
  }
  return text_of_list(states, ", ");
}

void add_error(const ScenarioResult& result, Symptom& failure) {
  const Error& error = *result.run.error;
  const auto& verdict = result.run.verdict;
  const bool stuck = verdict && verdict->kind != VerdictKind::kRankFailed;
  failure.kind = stuck ? Symptom::Kind::kVerdict : Symptom::Kind::kError;
  failure.name = to_string(stuck ? verdict->kind : VerdictKind::kRankFailed);
  if (!stuck) failure.name = to_string(error.kind());
  failure.detail = stuck ? detail_of(*verdict) : without_numbers(error.summary());
}

}  // namespace

bool Symptom::is_like(const Symptom& other) const {
  return kind == other.kind && name == other.name && cause == other.cause && detail == other.detail;
}

Symptom symptom_of(const ScenarioResult& result) {
  Symptom failure;
  const ScenarioJudgement& judgement = result.judgement;
  const auto mistake =
      mistake_of(result.run, {judgement.values, judgement.steps, judgement.parted});
  if (mistake) {
    failure.cause = mistake->cause;
    failure.lines = mistake->lines;
    failure.text = mistake->text;
  }
  if (result.run.error) {
    add_error(result, failure);
  } else if (mistake && mistake->value != nullptr) {
    failure.kind = Symptom::Kind::kValue;
    const bool of_elements = mistake->value->comparison.worst_index >= 0;
    // Behind a colon stand figures and advice.
    const std::string why = failure.text.substr(0, failure.text.find(':'));
    failure.detail = of_elements ? without_numbers(why) : "shapes";
  } else if (mistake) {
    failure.kind = Symptom::Kind::kCall;
    failure.name = judgement.steps.wrong->place.op;
  } else {
    for (const ExpectationReport& expectation : judgement.expectations) {
      if (expectation.met || expectation.of_failure) continue;
      failure.kind = Symptom::Kind::kExpectation;
      failure.name = expectation.what;
      failure.detail = failure.text = expectation.text;
      break;
    }
  }
  return failure;
}

std::string to_string(const Symptom& failure) {
  using enum Symptom::Kind;
  const std::string cause = failure.cause.empty() ? "" : fmt::format(" [{}]", failure.cause);
  if (failure.kind == kError) return fmt::format("an error ({})", failure.name);
  if (failure.kind == kVerdict) return "a " + failure.name + cause;
  if (failure.kind == kValue) return "a wrong value" + cause;
  if (failure.kind == kCall) return "a wrong call of " + failure.name;
  return failure.kind == kNone ? "nothing" : "an unmet expectation, " + failure.name;
}

}  // namespace shardlab
